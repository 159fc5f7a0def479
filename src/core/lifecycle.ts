/**
 * The life of a job. `transitions` is the whole state machine; docs/state-machine.md is generated from it.
 * The functions below turn what happened to an attempt into an `Outcome`: plain data that a store applies
 * under the lease's guard. Stores never decide.
 */
import { type BackoffState, backoffDelay, type CompiledBackoff } from './backoff.js'
import { type Failure, isFinal, type JobState } from './job.js'
import type { Wait } from './step.js'

export interface Transition {
  readonly from: JobState | 'new'
  readonly on: string
  readonly to: JobState
  readonly when: string
}

export const transitions: readonly Transition[] = [
  { from: 'new', on: 'enqueue', to: 'pending', when: 'due now' },
  { from: 'new', on: 'enqueue', to: 'scheduled', when: 'due later: `delay` or `runAt`' },
  { from: 'new', on: 'enqueue', to: 'blocked', when: 'waits for children' },
  { from: 'scheduled', on: 'due', to: 'pending', when: "its time has come by the store's clock" },
  { from: 'retrying', on: 'due', to: 'pending', when: 'the backoff is over' },
  { from: 'blocked', on: 'unblock', to: 'pending', when: 'children ended, or an event or a timer arrived' },
  {
    from: 'pending',
    on: 'claim',
    to: 'running',
    when: 'a worker takes the lease; the attempt counts from here',
  },
  { from: 'running', on: 'complete', to: 'completed', when: 'the handler returned' },
  {
    from: 'running',
    on: 'fail',
    to: 'retrying',
    when: 'the handler failed, attempts are left and the error is retryable',
  },
  { from: 'running', on: 'fail', to: 'dead', when: 'attempts are exhausted or the error is not retryable' },
  { from: 'running', on: 'crash', to: 'pending', when: "the worker's lease ran out and crashes are left" },
  { from: 'running', on: 'crash', to: 'dead', when: 'the crash cap is reached' },
  {
    from: 'running',
    on: 'release',
    to: 'pending',
    when: 'the worker shuts down, or does not know of the job; no attempt is spent',
  },
  {
    from: 'running',
    on: 'snooze',
    to: 'scheduled',
    when: 'the handler asked for later; no attempt is spent',
  },
  { from: 'running', on: 'wait', to: 'blocked', when: 'the handler waits for children, an event or a timer' },
  {
    from: 'running',
    on: 'cancel',
    to: 'cancelled',
    when: 'the handler stopped after a cancel, or asked for one',
  },
  { from: 'scheduled', on: 'unwind', to: 'pending', when: 'cancelled, and its handler undoes what it did' },
  { from: 'retrying', on: 'unwind', to: 'pending', when: 'the same' },
  { from: 'blocked', on: 'unwind', to: 'pending', when: 'the same' },
  { from: 'scheduled', on: 'cancel', to: 'cancelled', when: 'cancelled before it ran' },
  { from: 'pending', on: 'cancel', to: 'cancelled', when: 'cancelled before it ran' },
  { from: 'retrying', on: 'cancel', to: 'cancelled', when: 'cancelled between attempts' },
  { from: 'blocked', on: 'cancel', to: 'cancelled', when: 'cancelled while it waited' },
  { from: 'dead', on: 'revive', to: 'blocked', when: 'it died of a child that is replayed now' },
  { from: 'scheduled', on: 'promote', to: 'pending', when: 'an operator wants it now' },
  { from: 'retrying', on: 'promote', to: 'pending', when: 'an operator wants it now' },
  { from: 'dead', on: 'retry', to: 'pending', when: 'an operator replays it; attempts start again' },
  { from: 'dead', on: 'retry', to: 'scheduled', when: 'replayed with a delay or at a rate' },
  { from: 'cancelled', on: 'retry', to: 'pending', when: 'an operator wants it after all' },
  { from: 'cancelled', on: 'retry', to: 'scheduled', when: 'the same, with a delay' },
  { from: 'completed', on: 'retry', to: 'pending', when: 'an operator wants it done again' },
  { from: 'completed', on: 'retry', to: 'scheduled', when: 'the same, with a delay' },
]

/** The states from which `on` is allowed. */
export function statesFor(on: string): ReadonlySet<JobState> {
  return new Set(transitions.filter((t) => t.on === on && t.from !== 'new').map((t) => t.from as JobState))
}

/** What a store does to a running job, all of it in one guarded write. */
export interface Outcome {
  readonly to: Exclude<JobState, 'running'>
  /** The attempt counts against `maxAttempts`. */
  readonly spent: boolean
  /** The worker was lost; counts against `maxCrashes`. */
  readonly crashed: boolean
  /** Milliseconds until due, for `scheduled` and `retrying`. */
  readonly delay: number
  /** Milliseconds that a finished job is kept; 0 removes it at once. */
  readonly retain: number
  readonly result: string | undefined
  readonly failure: Failure | undefined
  readonly reason: string | undefined
  /** However it ended, it says nothing about its definition: the breaker does not count it. */
  readonly excused: boolean
  /** Nothing ran: what its start took of rates is given back. */
  readonly idle: boolean
  /** Milliseconds that all jobs of its key, or of its definition when it has none, must wait. */
  readonly hold: number
  /** What a blocked job waits for. */
  readonly wait: Wait | undefined
}

/** What a decision needs to know of the attempt. */
export interface Attempt {
  readonly attempt: number
  readonly crashes: number
  readonly maxAttempts: number
  readonly maxCrashes: number
  readonly retryDelay: number
}

export interface Retention {
  readonly completed: number
  readonly dead: number
}

export function completed(result: string | undefined, retention: Retention): Outcome {
  return outcome('completed', { spent: true, result, retain: retention.completed })
}

/** Another job has done it under the same key: nothing ran. */
export function completedBefore(result: string | undefined, retention: Retention): Outcome {
  return outcome('completed', { spent: true, result, retain: retention.completed, excused: true, idle: true })
}

/** It cannot run here now, or another works under the same key: nothing ran, and it is looked at again later. */
export function putOff(delay: number): Outcome {
  return outcome('scheduled', { delay, idle: true })
}

export function released(): Outcome {
  return outcome('pending', {})
}

/** The other side said when to come back; no attempt is spent, and the whole key waits. */
export function limited(hold: number): Outcome {
  return outcome('pending', { hold })
}

/** The same of one that its worker has not begun. */
export function unstarted(): Outcome {
  return outcome('pending', { idle: true })
}

export function snoozed(delay: number): Outcome {
  return outcome('scheduled', { delay })
}

/** It goes on when something of what it waits for has come; no attempt is spent. */
export function waiting(wait: Wait): Outcome {
  return outcome('blocked', { wait })
}

/** With a failure when that is why. */
export function cancelled(reason: string, retention: Retention, failure?: Failure): Outcome {
  return outcome('cancelled', { spent: true, reason, failure, retain: retention.completed })
}

export interface FailureVerdict {
  readonly failure: Failure
  readonly error: unknown
  readonly retryable: boolean
  /** A delay that the error itself demands; it wins over the backoff. */
  readonly retryAfter: number | undefined
  /** A breaker does not count it. */
  readonly excused?: boolean
}

/** A failed attempt is retried while attempts are left and the error allows it; otherwise the job is dead. */
export function failed(
  attempt: Attempt,
  verdict: FailureVerdict,
  backoff: CompiledBackoff,
  retention: Retention,
  random: () => number,
): Outcome {
  const { failure, excused } = verdict
  if (!verdict.retryable || attempt.attempt >= attempt.maxAttempts) {
    return outcome('dead', { spent: true, failure, excused, retain: retention.dead })
  }
  const state: BackoffState = { attempt: attempt.attempt, previous: attempt.retryDelay, error: verdict.error }
  const delay = verdict.retryAfter ?? backoffDelay(backoff, state, random)
  return outcome('retrying', { spent: true, failure, excused, delay })
}

/** What a sweep knows of a job whose worker was lost. */
export interface Orphan {
  readonly crashes: number
  readonly maxCrashes: number
  readonly cancelReason: string | undefined
  readonly unwinds?: boolean | undefined
}

/**
 * A lost worker spends the attempt, but exhausted attempts do not kill here: the job may have done nothing
 * wrong, and crashes have a cap of their own.
 */
export function crashed(orphan: Orphan, failure: Failure, retention: Retention): Outcome {
  if (orphan.cancelReason !== undefined && orphan.unwinds !== true) {
    return outcome('cancelled', {
      spent: true,
      crashed: true,
      reason: orphan.cancelReason,
      retain: retention.completed,
    })
  }
  if (orphan.crashes + 1 >= orphan.maxCrashes) {
    return outcome('dead', { spent: true, crashed: true, failure, retain: retention.dead })
  }
  return outcome('pending', { spent: true, crashed: true, failure })
}

/** A job that was asked to stop and comes back from its run in any way but its end is cancelled. */
export function heedCancel(outcome: Outcome, asked: string | undefined): Outcome {
  if (asked === undefined || isFinal(outcome.to)) return outcome
  return { ...outcome, to: 'cancelled', reason: asked }
}

/** The answer to a settlement whose outcome was applied as what the store knew has made it. */
export function settleResult(wanted: Outcome, applied: Outcome): 'applied' | 'cancelled' | 'waiting' {
  if (wanted.to === applied.to) return 'applied'
  if (applied.to === 'cancelled') return 'cancelled'
  // Whether a job that comes back has to wait first makes no difference to its worker.
  return isFinal(wanted.to) ? 'waiting' : 'applied'
}

/** A suspect runs alone; so does a job on its last life, so that a poison neighbour cannot take it along. */
export function runsAlone(job: Attempt & { readonly suspect: boolean }): boolean {
  return job.suspect || (job.crashes > 0 && job.crashes + 1 >= job.maxCrashes)
}

/** A finished job that nobody wants to keep leaves no row behind. */
export function leavesNothing(outcome: Outcome): boolean {
  return outcome.retain === 0 && isFinal(outcome.to)
}

export const totalNames = [
  'enqueued',
  'completed',
  'failed',
  'retried',
  'dead',
  'cancelled',
  'crashed',
  'pruned',
  'shed',
  'deferred',
] as const
export type TotalName = (typeof totalNames)[number]

/** The totals that an applied outcome adds to. */
export function totalsOf({ to, crashed, failure }: Outcome): readonly TotalName[] {
  if (to === 'completed') return ['completed']
  const how: TotalName[] = crashed ? ['crashed'] : failure !== undefined ? ['failed'] : []
  if (to === 'retrying') return [...how, 'retried']
  return to === 'dead' || to === 'cancelled' ? [...how, to] : how
}

/** How long a job that comes back is kept if a cancel meets it there. */
export const cancelledRetain = 7 * 86_400_000

/** Always the same shape: stores read these fields for every job they settle. */
function outcome(
  to: Outcome['to'],
  fields: { readonly [K in Exclude<keyof Outcome, 'to'>]?: Outcome[K] | undefined },
): Outcome {
  return {
    to,
    spent: fields.spent ?? false,
    crashed: fields.crashed ?? false,
    delay: fields.delay ?? 0,
    retain: fields.retain ?? cancelledRetain,
    result: fields.result,
    failure: fields.failure,
    reason: fields.reason,
    excused: fields.excused ?? false,
    idle: fields.idle ?? false,
    hold: fields.hold ?? 0,
    wait: fields.wait,
  }
}
