import type { StandardSchemaV1 } from '@standard-schema/spec'
import { bounds } from './bounds.js'
import {
  type Directive,
  defineJob,
  definitionOptions,
  isDirective,
  type JobContext,
  type JobDefinition,
  type JobOptions,
} from './definition.js'
import { type Duration, milliseconds } from './duration.js'
import { MillraceError, show } from './errors.js'
import { integer, invalid, noUnknown, noUnknownIn } from './options.js'

export interface BatchOptions<Input> {
  /** The most jobs of one call, from 1 to 1,000. @default 100 */
  readonly size?: number
  /**
   * How long the first job of a batch waits for others. Meanwhile its jobs are leased and count as running. With
   * 0 a batch is what the queue has at the time.
   * @default '50ms'
   */
  readonly wait?: Duration
  /** Jobs run together only if this tells the same of them: a table, an account. Undefined is a key of its own. */
  readonly by?: (input: Input) => string | number | undefined
}

const batchDefaults = { size: 100, wait: '50ms' } as const

/** What a batch handler gets besides the inputs. */
export interface BatchContext {
  /** One for each input, in the same order: id, attempt, progress, log, enqueue, its own signal. */
  readonly jobs: readonly JobContext[]
  readonly size: number
  /** Aborts when no job of the batch can count any more: the timeout, a shutdown's end, all cancelled. */
  readonly signal: AbortSignal
}

/** What became of one job of a batch: its result, or why it has none. An error counts for that job alone. */
export type BatchOutcome<Result> = Result | Error | Directive

/**
 * One outcome for each input, in their order. Nothing at all: every job completed, without result. A single
 * directive is for all of them.
 */
export type BatchOutcomes<Result> =
  | readonly BatchOutcome<Result>[]
  | Directive
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler without return is one that returns void
  | void

/** The results among the outcomes that a handler returns. A plain object with a name and a message is one. */
export type BatchResult<Outcome> = Outcome extends Directive
  ? never
  : Outcome extends Error
    ? 'stack' extends keyof Outcome
      ? never
      : Outcome
    : Outcome

export interface BatchJobOptions<Schema extends StandardSchemaV1 | undefined, Raw, Input, Outcome>
  extends Omit<JobOptions<Schema, Raw, Input, Outcome>, 'run' | 'sandbox' | 'transactional'> {
  readonly batch?: BatchOptions<Raw>
  /**
   * Runs all inputs of a batch. What it throws is the failure of every job; each is tried again, or dies, by its
   * own attempts.
   */
  readonly run: (
    inputs: Input[],
    context: BatchContext,
  ) => BatchOutcomes<Outcome> | PromiseLike<BatchOutcomes<Outcome>>
}

/** What a worker needs to know to run jobs together. */
export interface CompiledBatch {
  readonly size: number
  readonly wait: number
  readonly by: ((input: unknown) => string | number | undefined) | undefined
  readonly run: (inputs: unknown[], context: BatchContext) => unknown
}

/**
 * A job whose handler runs many at a time: `enqueue`, results, attempts and events stay those of single jobs,
 * and a worker puts the jobs that it takes into batches.
 */
export function defineBatchJob<Schema extends StandardSchemaV1, Outcome = void>(
  options: BatchJobOptions<
    Schema,
    StandardSchemaV1.InferInput<Schema>,
    StandardSchemaV1.InferOutput<Schema>,
    Outcome
  > & { readonly input: Schema },
): JobDefinition<
  StandardSchemaV1.InferInput<Schema>,
  StandardSchemaV1.InferOutput<Schema>,
  BatchResult<Outcome>
>
export function defineBatchJob<Input = unknown, Outcome = void>(
  options: BatchJobOptions<undefined, Input, Input, Outcome> & { readonly input?: undefined },
): JobDefinition<Input, Input, BatchResult<Outcome>>
export function defineBatchJob(
  options: BatchJobOptions<StandardSchemaV1 | undefined, never, unknown, unknown>,
): JobDefinition {
  noUnknown(options, batchJobOptions, 'defineBatchJob')
  const { batch, run, ...rest } = options
  if (typeof run !== 'function') throw invalid('run', run, 'a function (inputs, context) => outcomes')
  const compiled = compileBatch(batch ?? {}, run)
  const alone = { ...rest, run: (input: unknown, job: JobContext) => runAlone(compiled, input, job) }
  // The overloads cannot be told with a schema that may be there or not.
  const definition = defineJob(
    alone as JobOptions<undefined, never, unknown, unknown> & { input?: undefined },
  )
  return { ...definition, batch: compiled } as JobDefinition
}

const notOfBatches = ['sandbox', 'transactional']
const batchJobOptions = [...definitionOptions.filter((option) => !notOfBatches.includes(option)), 'batch']

function compileBatch(raw: BatchOptions<never>, run: CompiledBatch['run']): CompiledBatch {
  noUnknownIn('batch', raw, ['size', 'wait', 'by'])
  const { by } = raw
  if (by !== undefined && typeof by !== 'function')
    throw invalid('batch.by', by, 'a function (input) => key; for one batch of all jobs, leave it out')
  return {
    size: integer(raw.size ?? batchDefaults.size, 'batch.size', 1, bounds.batch),
    wait: milliseconds(raw.wait ?? batchDefaults.wait, 'batch.wait', bounds.batchWait),
    by: by as CompiledBatch['by'],
    run,
  }
}

/** A batch of one, as any other job is run: for jobs that must have their worker to themselves. */
async function runAlone({ run }: CompiledBatch, input: unknown, job: JobContext): Promise<unknown> {
  const returned = await run([input], { jobs: [job], size: 1, signal: job.signal })
  const [outcome] = outcomesOf(job.name, returned, 1)
  if (isError(outcome)) throw outcome
  return outcome
}

/** One outcome for each of `count` jobs, or INVALID_OUTCOME: nobody can tell which is whose. */
export function outcomesOf(name: string, returned: unknown, count: number): readonly unknown[] {
  if (returned === undefined || isDirective(returned)) return Array(count).fill(returned)
  if (Array.isArray(returned) && returned.length === count) return returned
  const what = Array.isArray(returned) ? `${returned.length} outcomes` : show(returned)
  throw new MillraceError(
    'INVALID_OUTCOME',
    `the batch handler of job '${name}' returned ${what} for ${count} inputs; expected an array with a result, an Error or a directive for each input, in their order, or nothing when all completed`,
    { field: 'run', value: returned, limit: count },
  )
}

/** Errors of other realms count as well: taken for results, they would complete their jobs. */
export function isError(outcome: unknown): outcome is Error {
  return outcome instanceof Error || Object.prototype.toString.call(outcome) === '[object Error]'
}
