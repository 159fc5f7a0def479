import { backoffDelay, type CompiledBackoff } from '../core/backoff.js'
import { bounds } from '../core/bounds.js'
import { cancel, type Directive, isDirective, type JobContext } from '../core/definition.js'
import { isMillraceError, isPermanent, MillraceError, NonRetryableError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { spread } from '../core/spread.js'
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

type Context = SagaContext<unknown, Record<string, unknown>>

/** The handler of a saga: does its steps in order, and undoes them in reverse once one has failed for good. */
export async function runSaga(
  plan: SagaPlan,
  input: unknown,
  job: JobContext,
): Promise<Record<string, unknown> | Directive> {
  const results: Record<string, unknown> = {}
  const noReturn = plan.steps.findIndex((step) => step.irreversible === true)
  for (const [i, step] of plan.steps.entries()) {
    const { result, failed } = await forward(plan, step, i === noReturn, { ...results }, input, job)
    if (failed !== undefined) {
      const begun = plan.steps.slice(0, i + 1)
      await undoAll(plan, begun.reverse(), failed, input, results, job)
      return compensated(failed)
    }
    results[step.name] = result
  }
  return results
}

/** Does one step, in the way of where it stands: before, at or after the point of no return. */
async function forward(
  plan: SagaPlan,
  step: PlannedStep,
  isNoReturn: boolean,
  results: Record<string, unknown>,
  input: unknown,
  job: JobContext,
): Promise<Done> {
  if (isNoReturn) {
    const begun = await passNoReturn(plan, step, job)
    if (begun.failed !== undefined) return begun
  }
  const way = isNoReturn ? doIrreversible : step.irreversible === true ? doAfterwards : doUndoable
  return job.step(step.name, ({ key, check }) =>
    way(plan, step, sagaContext(input, results, key, job), check, job.cancelReason),
  )
}

/**
 * Kept before the first irreversible step begins: from then on nobody can say that it had no effect, so a cancel
 * that comes later is not heeded.
 */
async function passNoReturn(plan: SagaPlan, step: PlannedStep, job: JobContext): Promise<Done> {
  const begun = await job.step(`${step.name}:begun`, (): Done => {
    const failed = turnsBack(plan, step, job.attempt, job.cancelReason)
    return failed === undefined ? {} : { failed }
  })
  if (begun.failed === undefined && job.cancelReason !== undefined)
    job.log(
      `past its point of no return the saga goes on in spite of the cancel: ${job.cancelReason}`,
      'warn',
    )
  return begun
}

/** Does one of the three kinds of steps. A failure that turns the saga round is kept, so that every later run knows. */
type Way = (
  plan: SagaPlan,
  step: PlannedStep,
  context: Context,
  check: (value: unknown) => void,
  cancelReason: string | undefined,
) => Promise<Done>

const doUndoable: Way = async (plan, step, context, check, cancelReason) => {
  const failed = turnsBack(plan, step, context.attempt, cancelReason)
  if (failed !== undefined) return { failed }
  try {
    const done = toDone(await step.run(context))
    // What cannot be kept is a failure of the step, and found while that can be said.
    check(done)
    return done
  } catch (error) {
    if (!isLastWord(plan, error, context)) throw error
    return { failed: { step: step.name, message: messageOf(error) } }
  }
}

/** Only its own word, an error that it throws, says that it had no effect. */
const doIrreversible: Way = async (plan, step, context) => {
  refuseExhausted(plan, step, context)
  let result: unknown
  try {
    result = await step.run(context)
  } catch (error) {
    if (!isLastWord(plan, error, context)) throw error
    return { failed: { step: step.name, message: messageOf(error) } }
  }
  return toDone(result)
}

const doAfterwards: Way = async (plan, step, context) => {
  refuseExhausted(plan, step, context)
  try {
    return toDone(await step.run(context))
  } catch (error) {
    if (isPermanent(error) || !isLastWord(plan, error, context)) throw error
    throw stuck(step, messageOf(error), error)
  }
}

function toDone(result: unknown): Done {
  return result === undefined ? {} : { result }
}

/** Why a step that can still be left out is not to begin. */
function turnsBack(
  { maxAttempts }: SagaPlan,
  { name }: PlannedStep,
  attempt: number,
  cancelReason: string | undefined,
): SagaFailure | undefined {
  if (cancelReason !== undefined) return { step: name, message: `the saga was cancelled: ${cancelReason}` }
  return attempt > maxAttempts ? { step: name, message: exhausted(maxAttempts) } : undefined
}

function refuseExhausted({ maxAttempts }: SagaPlan, step: PlannedStep, { attempt }: Context): void {
  if (attempt > maxAttempts) throw stuck(step, exhausted(maxAttempts))
}

function exhausted(attempts: number): string {
  return `its ${attempts} attempts are over; the last ended by a timeout or with its worker`
}

/** There is no way back: the job is dead, and a later life goes on with this step. */
function stuck({ name }: PlannedStep, why: string, cause?: unknown): NonRetryableError {
  return new NonRetryableError(
    `step '${name}' of the saga failed past its point of no return, so nothing is undone: ${why}. Retry the job to go on`,
    { field: name, ...(cause !== undefined && { cause }) },
  )
}

/** The step has failed for good. One that was told to stop has not had its say. */
function isLastWord(plan: SagaPlan, error: unknown, { signal, attempt }: Context): boolean {
  return !signal.aborted && isFinal(plan, error, attempt)
}

function isFinal({ retryable, maxAttempts }: SagaPlan, error: unknown, attempt: number): boolean {
  if (isDirective(error)) return error.kind === 'cancel'
  if (isPermanent(error) || attempt >= maxAttempts) return true
  try {
    return retryable?.(error) === false
  } catch {
    return false // a classifier that fails decides nothing
  }
}

/** Whatever ends the way back for good has left something done. */
async function undoAll(
  plan: SagaPlan,
  steps: readonly PlannedStep[],
  failure: SagaFailure,
  input: unknown,
  results: Readonly<Record<string, unknown>>,
  job: JobContext,
): Promise<void> {
  for (const step of steps) {
    try {
      await undo(plan, step, failure, input, results, job)
    } catch (error) {
      if (!isPermanent(error) || isMillraceError(error, 'COMPENSATION_FAILED')) throw error
      throw compensationFailed(step.name, messageOf(error), error)
    }
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
    const begunAt = await job.step(`${name}:begun`, () => job.attempt)
    const { failed, final } = await job.step(name, () =>
      begunAt === job.attempt ? tryOnce(plan, compensate, context) : interrupted,
    )
    if (failed === undefined) return
    if (final === true || tries >= maxAttempts) {
      await giveUp(job, step.name, tries, failed)
      tries = 0
      continue
    }
    const state = { attempt: tries, previous: delay, error: undefined }
    delay = backoffDelay(backoff, state, () => spread(`${job.jobId}:${name}:${tries}`))
    await job.step.sleep(delay, { name: `${name}:wait` })
  }
}

/** It had begun in another attempt of the job, and nothing was heard of it. */
const interrupted: Tried = { failed: 'it ended by a timeout or with its worker' }

async function tryOnce(
  plan: SagaPlan,
  compensate: (context: CompensationContext<unknown, Record<string, unknown>, unknown>) => unknown,
  context: CompensationContext<unknown, Record<string, unknown>, unknown>,
): Promise<Tried> {
  try {
    await compensate(context)
    return {}
  } catch (error) {
    if (context.signal.aborted || putsOff(error)) throw error
    return { failed: messageOf(error), final: isFinal(plan, error, 0) }
  }
}

function putsOff(error: unknown): boolean {
  return isDirective(error) && error.kind !== 'cancel'
}

/**
 * Kills the job once. A later life, which somebody asked for, finds the mark and tries anew. It is known by its
 * attempts, which begin again: with more of them than the mark has, a worker was lost before the job was dead.
 */
async function giveUp(job: JobContext, step: string, tries: number, message: string): Promise<void> {
  const why = `after ${tries} tries: ${message}`
  let isNew = false
  const gaveUpAt = await job.step(`undo:${step}:gave-up`, () => {
    isNew = true
    return job.attempt
  })
  if (isNew) throw compensationFailed(step, why)
  await job.step(`undo:${step}:goes-on`, () => {
    if (job.attempt > gaveUpAt) throw compensationFailed(step, why)
  })
}

function compensationFailed(step: string, why: string, cause?: unknown): MillraceError {
  return new MillraceError(
    'COMPENSATION_FAILED',
    `step '${step}' of the saga could not be undone, ${why}; what was done before it still stands. Retry the job to go on`,
    { field: step, ...(cause !== undefined && { cause }) },
  )
}

function compensated({ step, message }: SagaFailure): Directive {
  const reason = `step '${step}' of the saga failed and what was done was undone: ${message}`
  const error = new MillraceError('SAGA_COMPENSATED', reason, { field: step })
  // Where it was found says nothing about the cause.
  error.stack = ''
  return cancel(reason, error)
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
