import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { type Directive, isDirective, parseInput } from '../core/definition.js'
import { milliseconds } from '../core/duration.js'
import { isMillraceError, isPermanent, MillraceError, RetryAfter } from '../core/errors.js'
import { upgraded } from '../core/evolution.js'
import { describeFailure } from '../core/failure.js'
import {
  cancelled,
  completed,
  type FailureVerdict,
  failed,
  limited,
  type Outcome,
  released,
  snoozed,
} from '../core/lifecycle.js'
import { clean } from '../core/text.js'
import { loadHandler } from '../system/load-handler.js'
import type { Run } from './run.js'

/**
 * Runs one attempt: read → call → conclude. `done` gets the outcome, never an exception. The way
 * without promises is the common one and costs no turn of the event loop.
 */
export function execute(
  run: Run,
  runtime: Runtime,
  done: (run: Run, outcome: Outcome) => void,
  call: Call = callHere,
): void {
  const succeed = (value: unknown) => whenStepsEnded(run, () => done(run, concludeValue(run, runtime, value)))
  const fail = (error: unknown) => whenStepsEnded(run, () => done(run, concludeError(run, runtime, error)))
  let value: unknown
  try {
    value = callWith(run, readInput(run, runtime), call)
    if (isThenable(value)) return void value.then(succeed, fail)
  } catch (error) {
    return fail(error)
  }
  succeed(value)
}

/** What a step did is to be kept, and nothing of an attempt may go on beside the next one. */
function whenStepsEnded(run: Run, then: () => void): void {
  const steps = run.endSteps()
  if (steps === undefined) then()
  else void steps.then(then)
}

/** The stored input, in the form that the definition has now, and parsed. May be a promise. */
export function readInput(run: Run, runtime: Runtime): unknown {
  const { definition } = run
  const input = decode(run, runtime)
  if (definition.evolution === undefined) return parseInput(definition, input)
  const current = upgraded(definition, input, run.version)
  return current instanceof Promise
    ? current.then((value) => parseInput(definition, value))
    : parseInput(definition, current)
}

export function decode(run: Run, runtime: Runtime): unknown {
  try {
    return runtime.codec.decode(run.job.input)
  } catch (error) {
    throw new MillraceError('STORE_CORRUPT', `the stored input of job ${run.job.id} cannot be read`, {
      cause: error,
    })
  }
}

function callWith(run: Run, input: unknown, call: Call): unknown {
  return input instanceof Promise ? input.then((value) => call(run, value)) : call(run, input)
}

/** Calls the handler, wherever it runs. */
type Call = (run: Run, input: unknown) => unknown

/** In this process, also when the handler is a module. */
function callHere(run: Run, input: unknown): unknown {
  const { definition } = run
  return definition.sandbox === undefined
    ? definition.run(input, run)
    : loadHandler(definition.sandbox).then((handler) => handler(input, run))
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as PromiseLike<unknown>).then === 'function'
  )
}

export function concludeValue(run: Run, runtime: Runtime, value: unknown): Outcome {
  if (isDirective(value)) return follow(run, runtime, value)
  if (value === undefined) return completed(undefined, run.policy.retain)
  try {
    return completed(runtime.codec.encode(value, 'result', runtime.limits.result), run.policy.retain)
  } catch (error) {
    // The work is done, so doing it again would help nobody.
    return conclude(run, runtime, error, false)
  }
}

export function concludeError(run: Run, runtime: Runtime, error: unknown): Outcome {
  if (isDirective(error)) return follow(run, runtime, error)
  // What was left done is to be told, whatever else has come over the run.
  if (isMillraceError(error, 'COMPENSATION_FAILED')) return conclude(run, runtime, error, false)
  if (run.cancelled !== undefined) return stoppedByCancel(run, run.cancelled)
  return conclude(run, runtime, explain(run, error), isRetryable(run, error))
}

/** One that undoes what it did comes back for that. */
export function stoppedByCancel({ definition, policy }: Run, reason: string): Outcome {
  return definition.unwinds === true ? released() : cancelled(reason, policy.retain)
}

function follow(run: Run, runtime: Runtime, directive: Directive): Outcome {
  if (directive.kind === 'cancel')
    return cancelled(
      clean(String(directive.reason), bounds.reasonText),
      run.policy.retain,
      directive.cause === undefined ? undefined : describeFailure(run.job.name, directive.cause),
    )
  try {
    if (directive.kind === 'limited')
      return limited(Math.max(shortestHold, milliseconds(directive.delay, 'limited')))
    return snoozed(milliseconds(directive.delay, 'snooze'))
  } catch (error) {
    return conclude(run, runtime, error, false)
  }
}

/** A shorter one would make the job spin. */
const shortestHold = 100

function conclude(run: Run, runtime: Runtime, error: unknown, retryable: boolean): Outcome {
  const { policy, job } = run
  const failure = describeFailure(job.name, error)
  const verdict: FailureVerdict = {
    failure,
    error,
    retryable,
    retryAfter: retryAfter(error),
    excused: isMillraceError(error, 'INVALID_INPUT') || isMillraceError(error, 'UPGRADE_FAILED'),
  }
  try {
    return failed(job, verdict, policy.backoff, policy.retain, runtime.random)
  } catch (thrown) {
    // A custom backoff that throws must not wedge the job.
    return failed(
      job,
      { ...verdict, failure: describeFailure(job.name, thrown), retryable: false },
      policy.backoff,
      policy.retain,
      runtime.random,
    )
  }
}

/** A handler that stopped because it was told to failed of that, not of the abort that it threw. */
function explain(run: Run, error: unknown): unknown {
  if (run.stopped === undefined || run.stopped === error) return error
  return new MillraceError(run.stopped.code, run.stopped.message, { cause: error })
}

function isRetryable(run: Run, error: unknown): boolean {
  if (isPermanent(error)) return false
  try {
    return run.definition.retryable?.(error) ?? true
  } catch {
    return true // a classifier that fails decides nothing
  }
}

function retryAfter(error: unknown): number | undefined {
  if (!(error instanceof RetryAfter) && !isMillraceError(error, 'RETRY_AFTER')) return undefined
  try {
    return milliseconds((error as RetryAfter).delay, 'retryAfter')
  } catch {
    return undefined // an unreadable delay leaves the backoff in charge
  }
}
