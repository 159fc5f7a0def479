import { backoffDelay, type CompiledBackoff } from '../core/backoff.js'
import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import { cancel, type Directive, isDirective, type JobContext } from '../core/definition.js'
import { isPermanent, MillraceError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { stepKey } from '../core/step.js'
import { clean } from '../core/text.js'
import type { CompensationContext, NamedSagaStep, SagaContext, SagaFailure } from './define-saga.js'

type PlannedStep = NamedSagaStep<unknown, Record<string, unknown>>

export interface SagaPlan {
  readonly steps: readonly PlannedStep[]
  /** Of the way forward, over all steps. */
  readonly maxAttempts: number
  readonly retryable: ((error: unknown) => boolean) | undefined
  readonly undo: { readonly maxAttempts: number; readonly backoff: CompiledBackoff }
}

/** What is kept of a step: what it gave, or why it will never give anything. */
interface Done {
  readonly result?: unknown
  readonly failed?: SagaFailure
}

/** What is kept of one try of a compensation. */
interface Tried {
  readonly failed?: string
  /** Trying again is no use. */
  readonly final?: boolean
}

/** The handler of a saga: does its steps in order, and undoes them in reverse once one has failed for good. */
export async function runSaga(
  plan: SagaPlan,
  input: unknown,
  context: JobContext,
): Promise<Record<string, unknown> | Directive> {
  const results: Record<string, unknown> = {}
  const fixedAt = plan.steps.findIndex((step) => step.irreversible === true)
  for (const [i, step] of plan.steps.entries()) {
    const mayFail = fixedAt === -1 || i <= fixedAt
    const { result, failed } = await context.step(step.name, ({ key }) =>
      mayFail
        ? attempt(plan, step, sagaContext(input, { ...results }, key, context), context.cancelReason)
        : run(step, sagaContext(input, { ...results }, key, context)),
    )
    if (failed !== undefined) {
      const begun = plan.steps.slice(0, i + 1)
      for (const done of begun.reverse()) await undo(plan, done, failed, input, results, context)
      return compensated(failed)
    }
    results[step.name] = result
  }
  return results
}

/** A failure that is final is kept, so that every later run knows which way the saga goes. */
async function attempt(
  plan: SagaPlan,
  step: PlannedStep,
  context: SagaContext<unknown, Record<string, unknown>>,
  cancelReason: string | undefined,
): Promise<Done> {
  if (cancelReason !== undefined)
    return { failed: { step: step.name, message: `the saga was cancelled: ${cancelReason}` } }
  // Its last attempt ended without a word: by a timeout, or with its worker.
  if (context.attempt > plan.maxAttempts) return { failed: exhausted(step.name, plan.maxAttempts) }
  try {
    return await run(step, context)
  } catch (error) {
    if (context.signal.aborted || !isFinal(plan, error, context.attempt)) throw error
    return { failed: { step: step.name, message: messageOf(error) } }
  }
}

async function run(step: PlannedStep, context: SagaContext<unknown, Record<string, unknown>>): Promise<Done> {
  const result = await step.run(context)
  if (result === undefined) return {}
  // What cannot be kept is a failure of the step, and found while that can be said.
  jsonCodec.encode(result, `the result of saga step '${step.name}'`, bounds.stepBytes - wrapping)
  return { result }
}

/** Bytes around a result as it is kept. */
const wrapping = 64

function isFinal({ retryable, maxAttempts }: SagaPlan, error: unknown, attempt: number): boolean {
  if (isDirective(error)) return error.kind === 'cancel'
  if (isPermanent(error) || attempt >= maxAttempts) return true
  try {
    return retryable?.(error) === false
  } catch {
    return false // a classifier that fails decides nothing
  }
}

/** Undoes one step: tries until it succeeds once. Each try is kept, and the job sleeps between two of them. */
async function undo(
  plan: SagaPlan,
  step: PlannedStep,
  failure: SagaFailure,
  input: unknown,
  results: Readonly<Record<string, unknown>>,
  job: JobContext,
): Promise<void> {
  const { compensate } = step
  if (compensate === undefined) return
  const { maxAttempts, backoff } = plan.undo
  const name = `undo:${step.name}`
  const context: CompensationContext<unknown, Record<string, unknown>, unknown> = {
    ...sagaContext(input, { ...results }, stepKey(job.jobId, name), job),
    result: results[step.name],
    failure,
  }
  let delay = 0
  for (let tries = 1; ; tries++) {
    const { failed, final } = await job.step(name, () => tryOnce(plan, compensate, context))
    if (failed === undefined) return
    if (final === true || tries % maxAttempts === 0) {
      await giveUp(job, step.name, tries, failed)
      continue
    }
    const state = { attempt: tries % maxAttempts, previous: delay, error: undefined }
    delay = backoffDelay(backoff, state, () => spread(`${job.jobId}:${name}:${tries}`))
    await job.step.sleep(delay, { name: `${name}:wait` })
  }
}

async function tryOnce(
  plan: SagaPlan,
  compensate: (context: CompensationContext<unknown, Record<string, unknown>, unknown>) => unknown,
  context: CompensationContext<unknown, Record<string, unknown>, unknown>,
): Promise<Tried> {
  try {
    await compensate(context)
    return {}
  } catch (error) {
    if (context.signal.aborted) throw error
    return { failed: messageOf(error), final: isFinal(plan, error, 0) }
  }
}

/** Kills the job once. A later life, which somebody asked for, finds the mark and tries anew. */
async function giveUp(job: JobContext, step: string, tries: number, message: string): Promise<void> {
  let isNew = false
  await job.step(`undo:${step}:gave-up`, () => {
    isNew = true
  })
  if (!isNew) return
  throw new MillraceError(
    'COMPENSATION_FAILED',
    `step '${step}' of the saga could not be undone, after ${tries} tries: ${message}; what was done before it still stands. Retry the job to go on`,
    { field: step },
  )
}

function compensated({ step, message }: SagaFailure): Directive {
  const reason = `step '${step}' of the saga failed and what was done was undone: ${message}`
  const error = new MillraceError('SAGA_COMPENSATED', reason, { field: step })
  // Where it was found says nothing about the cause.
  error.stack = ''
  return cancel(reason, error)
}

function exhausted(step: string, attempts: number): SagaFailure {
  return {
    step,
    message: `its ${attempts} attempts are over; the last ended by a timeout or with its worker`,
  }
}

function sagaContext<Input>(
  input: Input,
  results: Record<string, unknown>,
  key: string,
  { jobId, attempt, signal, log }: JobContext,
): SagaContext<Input, Record<string, unknown>> {
  return { input, results, key, jobId, attempt, signal, log: (text) => log(text) }
}

function messageOf(error: unknown): string {
  if (isDirective(error)) return clean(String(error.reason), bounds.reasonText)
  return clean(describeFailure('', error).message, bounds.reasonText)
}

/** A number from 0 to 1 that differs between jobs and tries, and is the same in every run. */
function spread(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 15)) >>> 0) / 2 ** 32
}
