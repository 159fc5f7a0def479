/**
 * A job is one unit of work. `NewJob` is what a client hands to a store, `ClaimedJob` what a worker gets
 * from it, `JobRecord` what a reader sees. Input, result and progress stay encoded text in all three:
 * only the client and the worker know the codec.
 */
import type { Family, NewFamily } from './family.js'
import type { ClaimedGuard, NewGuard } from './guard.js'
import type { StepRecord } from './step.js'
import type { Dedupe } from './traffic/dedupe.js'
import type { JobTraffic } from './traffic/settings.js'

export const jobStates = [
  'scheduled',
  'pending',
  'running',
  'retrying',
  'blocked',
  'completed',
  'dead',
  'cancelled',
] as const

export type JobState = (typeof jobStates)[number]

/** The job will not run again by itself. */
const finalStates = ['completed', 'dead', 'cancelled'] as const
export type FinalState = (typeof finalStates)[number]

export function isFinal(state: JobState): state is FinalState {
  return (finalStates as readonly JobState[]).includes(state)
}

export interface NewJob {
  readonly id: string
  readonly name: string
  readonly queue: string
  /** Index into `laneNames`; 0 is the most urgent. */
  readonly lane: number
  readonly input: string
  /** Milliseconds from the store's now. Ignored when `runAt` is set. */
  readonly delay: number
  /** Epoch milliseconds, judged by the store's clock. */
  readonly runAt: number | undefined
  readonly maxAttempts: number
  readonly maxCrashes: number
  /** Policy that differs from the definition's, as JSON; see `PolicyOverrides`. */
  readonly overrides: string | undefined
  readonly tags: readonly string[] | undefined
  /** Marks of the fields of its input that it is found by; see search.ts. */
  readonly search?: readonly string[] | undefined
  /** Caller's own JSON, never interpreted. */
  readonly metadata: string | undefined
  readonly traffic: JobTraffic | undefined
  readonly dedupe: Dedupe | undefined
  readonly family: NewFamily | undefined
  readonly guard: NewGuard | undefined
  /**
   * Its handler undoes what it did: a cancel of a job that has started makes it ready with the reason, and only its
   * handler ends it.
   */
  readonly unwinds?: boolean | undefined
  /** Its id was made for it and is known to nobody else: no other job can have it. */
  readonly fresh?: boolean | undefined
}

/** A job under a lease. Every write about it must present `token`. */
export interface ClaimedJob {
  readonly id: string
  readonly token: string
  readonly name: string
  readonly queue: string
  readonly lane: number
  readonly input: string
  /** Counts this attempt: 1 for the first. */
  readonly attempt: number
  /** How many earlier attempts ended with their worker. */
  readonly crashes: number
  readonly maxAttempts: number
  readonly maxCrashes: number
  readonly createdAt: number
  /** When it became ready: since then it has waited for a worker. */
  readonly readyAt: number
  readonly startedAt: number
  /** The delay before this attempt when it is a retry, else 0; decorrelated backoff builds on it. */
  readonly retryDelay: number
  readonly overrides: string | undefined
  readonly tags: readonly string[] | undefined
  readonly metadata: string | undefined
  readonly group: string | undefined
  readonly key: string | undefined
  /** Its definition is in quarantine: it must not run beside others. */
  readonly suspect: boolean
  /** Of a job that was added to wait for children. */
  readonly family: Family | undefined
  readonly guard: ClaimedGuard | undefined
  /** It has steps of earlier runs; `trail` tells them. */
  readonly stepped: boolean
  /** Of a job that unwinds: why it was cancelled. */
  readonly cancelReason?: string | undefined
}

/** A failure as it is stored: clean text, bounded, never an Error object. */
export interface Failure {
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  readonly code: string | undefined
  /** Groups failures with the same cause; see failure.ts. */
  readonly cause: string
  /** Of a job that died because of a child (CHILD_FAILED, COMPENSATED): that child. */
  readonly child?: string
  readonly root?: RootFailure
}

/**
 * The job that others died of: the child itself, or one further below. Retried, those that died of it with
 * CHILD_FAILED wait for it again.
 */
export interface RootFailure {
  readonly id: string
  /** The name of its definition. */
  readonly name: string
  readonly message: string
  readonly cause: string
}

/** One ended attempt that did not complete the job. */
export interface AttemptRecord {
  readonly attempt: number
  readonly startedAt: number
  readonly endedAt: number
  readonly worker: string
  /** The state that the attempt led to. */
  readonly to: JobState
  readonly failure: Failure | undefined
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export interface LogLine {
  readonly at: number
  readonly level: LogLevel
  readonly text: string
}

export interface JobRecord {
  readonly id: string
  readonly name: string
  readonly queue: string
  readonly lane: number
  readonly state: JobState
  readonly input: string
  readonly attempt: number
  readonly crashes: number
  readonly maxAttempts: number
  readonly maxCrashes: number
  readonly createdAt: number
  /** When a scheduled or retrying job becomes ready, and when a blocked one does at the latest. */
  readonly dueAt: number | undefined
  readonly startedAt: number | undefined
  readonly finishedAt: number | undefined
  /** When retention removes a finished job. */
  readonly expiresAt: number | undefined
  readonly worker: string | undefined
  readonly result: string | undefined
  /** The failure of a dead job, or the last one of a live job. */
  readonly failure: Failure | undefined
  /** Why it was cancelled, or why a cancel of the running job was asked for. */
  readonly cancelReason: string | undefined
  readonly progress: string | undefined
  readonly overrides: string | undefined
  readonly tags: readonly string[] | undefined
  readonly metadata: string | undefined
  readonly group: string | undefined
  readonly key: string | undefined
  readonly family: Family | undefined
  /** Its handler undoes what it did. */
  readonly unwinds: boolean
}

/** What is kept beside a record and read only when asked for. */
export interface JobTrail {
  readonly attempts: readonly AttemptRecord[]
  readonly logs: readonly LogLine[]
  /** In the order in which they were written. */
  readonly steps: readonly StepRecord[]
}
