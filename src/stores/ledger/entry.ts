import type { AttemptRecord, Failure, JobState, LogLine, NewJob } from '../../core/job.js'
import type { SignalWait } from '../../core/step.js'
import type { Kind } from './kind.js'
import type { Parenthood } from './parenthood.js'
import type { Steps } from './steps.js'
import type { ParkingGate, Place } from './traffic.js'
import type { Lease } from './worker.js'

/**
 * A job as it is kept. Small, because most of the time goes into memory: what a job that runs once and
 * leaves nothing behind never needs is in its `story`.
 */
export class Entry {
  /** Position in line, kept for life: a job that comes back stands where it stood. */
  readonly seq: number
  job: NewJob
  kind: Kind
  state: JobState = 'pending'
  readonly createdAt: number
  /** Orders the job among those of its state: when it is due, when it expires, its turn, else 0. */
  rank = 0
  /** Set while running; shared by the jobs of one claim. */
  lease: Lease | undefined = undefined
  /** Index into what the lease holds. */
  slot = 0
  story: Story | undefined = undefined

  /** The gates of a job with a group or a key, while it is pending or runs. */
  get gates(): readonly ParkingGate[] | undefined {
    return this.story?.gates
  }

  set gates(gates: readonly ParkingGate[] | undefined) {
    storyOf(this).gates = gates
  }

  get stepped(): boolean {
    return this.story?.steps !== undefined
  }

  constructor(seq: number, job: NewJob, kind: Kind, createdAt: number) {
    this.seq = seq
    this.job = job
    this.kind = kind
    this.createdAt = createdAt
  }
}

const none: readonly never[] = []

/** What happened to a job so far. */
class Story {
  /** Attempts spent; the running one is not among them yet. */
  attempt = 0
  crashes = 0
  retryDelay = 0
  /** When it was last promoted. */
  readyAt: number | undefined = undefined
  /** When its last run began; undefined while none has, or while all that its runs did is forgotten. */
  startedAt: number | undefined = undefined
  finishedAt: number | undefined = undefined
  result: string | undefined = undefined
  failure: Failure | undefined = undefined
  /** Set while dead. */
  cause: string | undefined = undefined
  cancelReason: string | undefined = undefined
  progress: string | undefined = undefined
  /** Replaced as a whole, so that a reader keeps what it was given. */
  attempts: readonly AttemptRecord[] = none
  logs: readonly LogLine[] = none
  /** Lines that the run of a claim has written: a report may arrive twice, by a renewal and with the outcome. */
  logged: { readonly claim: string; readonly lines: number } | undefined = undefined
  steps: Steps | undefined = undefined
  /** The signals that a blocked job waits for. */
  waits: readonly SignalWait[] | undefined = undefined
  /** Its place among those that wait for the same. */
  waiter = 0
  /** Where a pending job with limits or a group waits. */
  place: Place | undefined = undefined
  gates: readonly ParkingGate[] | undefined = undefined
  /** Of a job that has children. */
  parenthood: Parenthood | undefined = undefined
}

export function storyOf(entry: Entry): Story {
  entry.story ??= new Story()
  return entry.story
}
