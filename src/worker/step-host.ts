import type { ReadChildren } from '../core/children.js'
import { MillraceError } from '../core/errors.js'
import type { StepRecord, Wait } from '../core/step.js'
import type { FanClose } from '../core/store.js'
import type { ChildBatch } from './step-children.js'
import type { MemoHost } from './step-memos.js'

/** What the steps of a run need of it, wherever it runs. */
export interface StepHost extends MemoHost {
  /** Its outcome is decided. */
  readonly ended: boolean
  /** Why it was told to stop. */
  readonly stopped: unknown
  /** The transaction in which it completes has begun: nothing else can be written. */
  readonly hasBegun: boolean
  /** Resolves when they are stored. */
  write(steps: readonly StepRecord[]): Promise<void>
  begin(): Promise<StepTransaction>
  addChildren(batch: ChildBatch): Promise<void>
  readonly readChildren: ReadChildren
  /** How often children of its steps were replayed, up to now. */
  replays(): Promise<number>
  /** The children of this fan stay as they ended. Resolves with false when one was replayed since it was read. */
  close(close: FanClose): Promise<boolean>
  /** The run is over: the job waits. */
  suspend(wait: Wait): void
}

export interface StepTransaction {
  readonly tx: unknown
  /** Rejects when it was rolled back before its time: the run was told to stop, or it was open for too long. */
  readonly over: Promise<never>
  commit(steps: readonly StepRecord[]): Promise<void>
  rollback(): Promise<void>
}

/** Throws when a run must begin no more. */
export function mayGoOn({ stopped, ended, jobId }: Pick<StepHost, 'stopped' | 'ended' | 'jobId'>): void {
  if (stopped !== undefined) throw stopped
  if (ended) throw tooLate(jobId)
}

export function tooLate(id: string): MillraceError {
  return new MillraceError('LEASE_LOST', `job ${id} has ended; it can take no more steps`)
}
