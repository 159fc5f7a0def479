import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { BackoffOptions } from '../core/backoff.js'
import { bounds } from '../core/bounds.js'
import { defineJob, definitionOptions, type JobDefinition, type JobOptions } from '../core/definition.js'
import { compileBackoff, defaults, integer, invalid, name, noUnknown, noUnknownIn } from '../core/options.js'
import { newestWins } from '../core/traffic/dedupe.js'
import { runSaga, type SagaPlan } from './run-saga.js'

/** What the steps of a saga get. */
export interface SagaContext<Input, Results> {
  readonly input: Input
  /** What the earlier steps gave, by name. */
  readonly results: Results
  /** The same whenever this step, or this compensation, of this job runs: an idempotency key for providers. */
  readonly key: string
  readonly jobId: string
  /** 1 for the first try. */
  readonly attempt: number
  /** Aborts on timeout, cancel, a lost lease, and at the end of a shutdown's grace. */
  readonly signal: AbortSignal
  /** Keeps a line with the job. */
  readonly log: (text: string) => void
}

export interface CompensationContext<Input, Results, Result> extends SagaContext<Input, Results> {
  /**
   * What the step gave. Undefined for the step that did not get to its end, because it failed, its worker was lost,
   * or a cancel came: nobody knows whether it had its effect, or was even called, so its compensation must cope with
   * both.
   */
  readonly result: Result | undefined
  /** Why the saga is undone. */
  readonly failure: SagaFailure
}

export interface SagaFailure {
  /** The step that failed. */
  readonly step: string
  readonly message: string
}

/** A step and what undoes it. One that nothing can undo says so, and comes after all that can be undone. */
export type SagaStep<Input, Results, Result> = SagaRun<Input, Results, Result> &
  (
    | {
        /**
         * Undoes the step; called again until it does not throw, so it must be safe to repeat. It is called for the
         * step that failed too, and for one that may never have begun: it must be safe where nothing was done.
         */
        readonly compensate: (context: CompensationContext<Input, Results, Result>) => unknown
        readonly irreversible?: false
      }
    | { readonly irreversible: true; readonly compensate?: undefined }
  )

interface SagaRun<Input, Results, Result> {
  /**
   * Does the step. It runs again after a failure, a lost worker or, past the point of no return, a cancel, so it must
   * be safe to repeat. An irreversible one that does not know whether it had its effect must not say that it failed
   * for good.
   */
  readonly run: (context: SagaContext<Input, Results>) => Result | PromiseLike<Result>
}

/** One step of `steps`, by its name and what it gives. */
export type NamedSagaStep<Input, Results> = {
  [Name in keyof Results & string]: SagaStep<Input, Results, Results[Name]> & { readonly name: Name }
}[keyof Results & string]

export interface CompensationOptions {
  /** How often each compensation is tried, up to 100 times. @default 10 */
  readonly maxAttempts?: number
  /** The job sleeps between the tries. @default { type: 'exponential', initialDelay: '1s', maxDelay: '5m', jitter: 'full' } */
  readonly backoff?: BackoffOptions
}

export interface SagaPolicy<Schema extends StandardSchemaV1 | undefined, Raw, Input>
  extends Omit<JobOptions<Schema, Raw, Input, never>, 'run' | 'sandbox' | 'maxCrashes'> {
  readonly compensation?: CompensationOptions
}

export interface SagaOptions<Schema extends StandardSchemaV1 | undefined, Raw, Input, Results>
  extends SagaPolicy<Schema, Raw, Input> {
  /** In the order in which they are done. */
  readonly steps: readonly NamedSagaStep<Input, Results>[]
}

/**
 * A job of several steps that are all done, or undone in reverse. Each step is durable: a retry goes on with the
 * first one that is not done. When a step fails for good, because of `maxAttempts`, counted over the whole saga
 * with timeouts and lost workers, or because its error is not worth a retry, what was done is undone, the last step
 * first, each until it succeeded once. Then the job is `cancelled`, with a reason and a failure that name the step,
 * and `job.result()` rejects with them. It stays undone: enqueue a new one.
 *
 * A compensation that fails for good, with timeouts and lost workers counted as failed tries, leaves the job `dead`
 * with the code COMPENSATION_FAILED and a `compensationFailed` event; a retry of the job goes on with it.
 *
 * A cancel of a saga that has begun undoes it the same way, up to its point of no return: where the first
 * irreversible step begins. From there on it cannot be cancelled. If that step throws an error for good, it has had no
 * effect, and what came before is undone. If it ends without a word, by timeouts or lost workers, and whenever a later
 * step fails, nothing is undone: the job is retried, then dead, and a retry goes on from there.
 */
export function defineSaga<Schema extends StandardSchemaV1, Results extends object = Record<string, unknown>>(
  options: SagaOptions<
    Schema,
    StandardSchemaV1.InferInput<Schema>,
    StandardSchemaV1.InferOutput<Schema>,
    Results
  > & { readonly input: Schema },
): JobDefinition<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>, Results>
export function defineSaga<Input = unknown, Results extends object = Record<string, unknown>>(
  options: SagaOptions<undefined, Input, Input, Results> & { readonly input?: undefined },
): JobDefinition<Input, Input, Results>
export function defineSaga(
  options: SagaOptions<StandardSchemaV1 | undefined, never, unknown, Record<string, unknown>>,
): JobDefinition {
  noUnknown(options, sagaOptions, 'defineSaga')
  const { steps, compensation, ...policy } = options
  const plan = compilePlan(steps, options.maxAttempts, compensation ?? {}, options.retryable)
  if (options.dedupe?.mode !== undefined && newestWins(options.dedupe.mode))
    throw invalid('dedupe.mode', options.dedupe.mode, "'until-done' or 'throttle': others end a saga midway")
  const undoable = plan.steps.filter((step) => step.compensate !== undefined).length
  const lives = Math.min(bounds.attempts, plan.maxAttempts + plan.undo.maxAttempts * (undoable + 1))
  const job = {
    ...policy,
    // The saga counts its own attempts, and the tries of each compensation; the job must outlive the last of them.
    maxAttempts: lives,
    maxCrashes: lives,
    run: (input: unknown, context: never) => runSaga(plan, input, context),
  }
  // The overloads cannot be told with a schema that may be there or not.
  const given = job as unknown as JobOptions<undefined, unknown, unknown, unknown> & { input?: undefined }
  return { ...defineJob(given), unwinds: true }
}

const sagaOptions = [
  ...definitionOptions.filter((option) => !['run', 'sandbox', 'maxCrashes'].includes(option)),
  'steps',
  'compensation',
]

function compilePlan(
  steps: readonly NamedSagaStep<unknown, Record<string, unknown>>[],
  maxAttempts: number | undefined,
  compensation: CompensationOptions,
  retryable: SagaPlan['retryable'],
): SagaPlan {
  if (!Array.isArray(steps) || steps.length === 0) throw invalid('steps', steps, 'at least one step')
  steps.forEach((step, i) => {
    checkStep(step, steps.slice(0, i), i)
  })
  noUnknownIn('compensation', compensation, ['maxAttempts', 'backoff'])
  return {
    steps,
    maxAttempts: integer(maxAttempts ?? defaults.maxAttempts, 'maxAttempts', 1, bounds.attempts),
    retryable,
    undo: {
      maxAttempts: integer(compensation.maxAttempts ?? 10, 'compensation.maxAttempts', 1, 100),
      backoff: compileBackoff(compensation.backoff ?? {}),
    },
  }
}

/** A step as it was given: nothing of it is certain yet. */
type GivenStep = { readonly [K in 'name' | 'run' | 'compensate' | 'irreversible']?: unknown }

function checkStep(step: GivenStep, earlier: readonly GivenStep[], i: number): void {
  const at = `steps[${i}]`
  noUnknownIn(at, step, ['name', 'run', 'compensate', 'irreversible'])
  name(step.name as string, `${at}.name`)
  if (earlier.some((other) => other.name === step.name))
    throw invalid(`${at}.name`, step.name, 'each name once')
  if (typeof step.run !== 'function') throw invalid(`${at}.run`, step.run, 'a function that does the step')
  if (step.irreversible === true) {
    if (step.compensate !== undefined)
      throw invalid(`${at}.compensate`, step.compensate, 'none: the step is irreversible')
    return
  }
  if (typeof step.compensate !== 'function')
    throw invalid(
      `${at}.compensate`,
      step.compensate,
      'a function that undoes the step, or irreversible: true',
    )
  const fixed = earlier.find((other) => other.irreversible === true)
  if (fixed !== undefined)
    throw invalid(`${at}.name`, step.name, `irreversible steps last, but '${fixed.name}' comes before it`)
}
