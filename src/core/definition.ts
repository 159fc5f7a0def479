import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { BackoffOptions, CustomBackoff } from './backoff.js'
import type { CompiledBatch } from './batch.js'
import type { Duration } from './duration.js'
import { MillraceError } from './errors.js'
import { type CompiledEvolution, compileEvolution } from './evolution.js'
import type { ScheduleSlot } from './firing.js'
import {
  type CompiledSandbox,
  compileSandbox,
  type Handler,
  type HandlerModule,
  notHere,
  type SandboxOptions,
} from './handler.js'
import { type CompiledIdempotency, compileIdempotency, type IdempotencyOptions } from './idempotency.js'
import type { Failure, LogLevel } from './job.js'
import { type CompiledPolicy, compilePolicy, invalid, type JobPolicy, name, noUnknown } from './options.js'
import { compileSearch } from './search.js'
import type { Step } from './step-function.js'
import {
  type CompiledTraffic,
  compileJobTraffic,
  type DedupeOptions,
  type JobTrafficOptions,
  jobTrafficOptions,
} from './traffic/options.js'

/** What a handler gets besides its input. */
export interface JobContext {
  readonly jobId: string
  readonly name: string
  readonly queue: string
  /** 1 for the first try. */
  readonly attempt: number
  readonly maxAttempts: number
  /**
   * The same for every attempt, for providers that take one. Where `idempotency` is set, it is the same for all jobs
   * with that key, too; else it is the job's id.
   */
  readonly idempotencyKey: string
  readonly createdAt: Date
  readonly tags: readonly string[]
  readonly metadata: unknown
  /** The schedule that fired it, and for which time; undefined for other jobs. */
  readonly schedule: ScheduleSlot | undefined
  /** Aborts on timeout, cancel, a lost lease, and at the end of a shutdown's grace. */
  readonly signal: AbortSignal
  /** Reports how far the job is: a number, or any data that a codec keeps. The last one wins. */
  readonly progress: (value: unknown) => void
  /** Keeps a line with the job, bounded in number and length. */
  readonly log: (text: string, level?: LogLevel) => void
  /**
   * Adds a job that exists if and only if this attempt completes. Returns its id, which no job will have when
   * another stands for it then, because of its `dedupe`: that is known only when the outcome is written.
   */
  readonly enqueue: EnqueueFromHandler
  /**
   * With `transactional`: the transaction in which the job completes, begun by the first call. For SQLite a
   * better-sqlite3 database: `const db = await tx<Database>()`. What is written with it is there if and only if the
   * job completes; any other end rolls it back. Where there is one writer at a time, all others wait from the first
   * call to the end of the handler: call it late, end soon (within half of the worker's lease), write nothing without
   * it in between, and nothing with it afterwards. Steps are taken before it.
   */
  readonly tx: <Tx = unknown>() => Promise<Tx>
  /**
   * What this job waited for before it ran, not what its steps have added, in the order in which it was added, page by page: all of it, or the jobs of one
   * definition, whose results are typed by it. Children that failed are among them if their `onFailure` is
   * 'continue'.
   */
  readonly children: <I = unknown, O = I, R = unknown>(
    job?: JobDefinition<I, O, R>,
  ) => AsyncGenerator<Child<R>, void, undefined>
  /** The results of those of its children that are of this definition and completed, in that order. */
  readonly results: <I, O, R>(job: JobDefinition<I, O, R>) => Promise<R[]>
  /** The result of the one child of this definition, or of the node of this name; CHILD_FAILED if it has none. */
  readonly resultOf: <I, O, R>(job: JobDefinition<I, O, R>, node?: string) => Promise<R>
  /** Durable parts of the handler, sleeps and waits: a later run goes on from there. Not for batch handlers. */
  readonly step: Step
  /** Why the job was cancelled, for a handler that undoes what it did, such as a saga's. */
  readonly cancelReason?: string | undefined
}

/** A child that has ended, as its parent's handler sees it. Its `state` tells which of the others it has. */
export type Child<R = unknown> = {
  readonly id: string
  /** The name of its definition. */
  readonly name: string
  /** Its name in the flow, if it has one. */
  readonly node: string | undefined
} & (
  | { readonly state: 'completed'; readonly result: R; readonly failure: undefined }
  | { readonly state: 'dead'; readonly result: undefined; readonly failure: Failure }
  /** With a failure only if its handler gave one: `cancel(reason, cause)`. */
  | { readonly state: 'cancelled'; readonly result: undefined; readonly failure: Failure | undefined }
)

export type EnqueueFromHandler = <I, O, R>(
  job: JobDefinition<I, O, R>,
  input: NoInfer<I>,
  options?: EnqueueOptions,
) => Promise<string>

export interface EnqueueOptions extends JobPolicy {
  /** Instead of what the definition's `group` says. */
  readonly group?: string | number
  /** Instead of what the definition's `key` says. Where `keep-last` is declared, the dedupe key is the key. */
  readonly key?: string | number
  /** Instead of what the definition's `dedupe` says; false for none. `keep-last` must be declared there too. */
  readonly dedupe?: DedupeOptions<string | number> | false
  /**
   * Ends the wait for room in a full queue; aborted before anything is written, it keeps it so. Rejects with the
   * signal's reason. An `enqueueMany` that has added some jobs by then rejects with QUEUE_FULL instead: `added`
   * says how many, and `cause` is the reason.
   */
  readonly signal?: AbortSignal
  /** The caller's own id: an enqueue with an id that exists returns the existing job. */
  readonly id?: string
  /** Starts no earlier than this much later. */
  readonly delay?: Duration
  /** Starts no earlier than this time. */
  readonly runAt?: Date | number
  readonly backoff?: BackoffOptions
  readonly tags?: readonly string[]
  /** Kept with the job, never interpreted. */
  readonly metadata?: unknown
}

const directiveBrand = Symbol.for('millrace.directive')

/** Returned or thrown by a handler instead of a result. */
export class Directive {
  constructor(
    readonly kind: 'snooze' | 'cancel' | 'limited',
    readonly delay: Duration,
    readonly reason: string,
    readonly cause?: unknown,
  ) {}

  get [directiveBrand](): true {
    return true
  }
}

/** Works across duplicate installs, where `instanceof` does not. */
export function isDirective(value: unknown): value is Directive {
  return typeof value === 'object' && value !== null && directiveBrand in value
}

/** Puts the job off without spending an attempt: `return snooze('10m')`. */
export function snooze(delay: Duration): Directive {
  return new Directive('snooze', delay, '')
}

/**
 * The other side said when to come back (Retry-After): all jobs of this key, or of this definition when it has
 * none, wait that long. Spends no attempt: `return limited('30s')`.
 */
export function limited(delay: Duration): Directive {
  return new Directive('limited', delay, '')
}

/**
 * Ends the job as cancelled: `return cancel('the order is gone')`. With a `cause`, an error, that is kept as the
 * job's failure.
 */
export function cancel(reason: string, cause?: unknown): Directive {
  return new Directive('cancel', 0, reason, cause)
}

export interface JobOptions<Schema extends StandardSchemaV1 | undefined, Raw, Input, Result>
  extends JobPolicy,
    JobTrafficOptions<Raw> {
  readonly name: string
  /** Any Standard Schema (Zod, Valibot, ArkType …). Checked at enqueue; parsed again before the handler runs. */
  readonly input?: Schema
  readonly backoff?: BackoffOptions | CustomBackoff
  /** Decides whether an error is worth another attempt. @default every error is */
  readonly retryable?: (error: unknown) => boolean
  /**
   * The handler: a function of this process, or a module of its own, which runs in a sandbox. A plain file URL
   * gives its default export without types; `fromModule` types it.
   */
  readonly run: Handler<Input, Result> | HandlerModule<Input, Result> | URL | string
  /** How a handler that is a module is kept apart. @default a process with 512 MiB */
  readonly sandbox?: SandboxOptions
  readonly idempotency?: IdempotencyOptions<Raw>
  /** The handler may write in the transaction that completes its job; see `tx`. @default false */
  readonly transactional?: boolean
  /** Of the input's form: a whole number from 1 on, raised when it changes. @default none, which counts as 0 */
  readonly version?: number
  /**
   * Makes the input of a job that an older deploy enqueued, with version `from`, one of this version. It is called
   * before the schema, each time the job runs.
   */
  readonly upgrade?: (input: unknown, from: number) => NoInfer<Raw> | Promise<NoInfer<Raw>>
  /**
   * Fields of the input, at most 8, that jobs are found by: `['order.id']` makes `mill.jobs({ name, state, field: { path:
   * 'order.id', value: 42 } })` fast. Texts of up to 256 characters, numbers, true, false and null; others are left out.
   * Jobs that are there already stay as they are. @default none
   */
  readonly search?: readonly string[]
}

/**
 * The typed handle of a kind of job: `Input` is what `enqueue` takes, `Parsed` what the handler gets,
 * `Result` what `job.result()` returns.
 */
export interface JobDefinition<Input = unknown, Parsed = Input, Result = unknown> {
  readonly name: string
  readonly schema: StandardSchemaV1<Input, Parsed> | undefined
  readonly policy: CompiledPolicy
  readonly retryable: ((error: unknown) => boolean) | undefined
  /** Limits, groups and the like; undefined when it has none. */
  readonly traffic: CompiledTraffic | undefined
  /** How its jobs run together; undefined for a job that has its handler to itself. */
  readonly batch: CompiledBatch | undefined
  /** Throws when the handler is a module: `sandbox` says where that is. */
  readonly run: Handler<Parsed, Result>
  readonly sandbox: CompiledSandbox | undefined
  readonly idempotency: CompiledIdempotency | undefined
  readonly transactional: boolean
  /** How old inputs become new ones; undefined when it has neither `version` nor `upgrade`. */
  readonly evolution: CompiledEvolution | undefined
  /** Fields of the input that its jobs are found by. */
  readonly search?: readonly string[] | undefined
  /** Its handler undoes what it did when the job is cancelled, and ends the job then; a saga does. */
  readonly unwinds?: boolean
}

// A registry holds definitions of every type; variance of the handler's input allows no narrower type.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnyJob = JobDefinition<any, any, any>

export function defineJob<Schema extends StandardSchemaV1, Result>(
  options: JobOptions<
    Schema,
    StandardSchemaV1.InferInput<Schema>,
    StandardSchemaV1.InferOutput<Schema>,
    Result
  > & { readonly input: Schema },
): JobDefinition<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>, Result>
export function defineJob<Input = unknown, Result = unknown>(
  options: JobOptions<undefined, Input, Input, Result> & { readonly input?: undefined },
): JobDefinition<Input, Input, Result>
export function defineJob(
  options: JobOptions<StandardSchemaV1 | undefined, never, unknown, unknown>,
): JobDefinition {
  noUnknown(options, definitionOptions, 'defineJob')
  if (options.input !== undefined && typeof options.input['~standard']?.validate !== 'function') {
    throw invalid('input', options.input, 'a Standard Schema, such as a Zod, Valibot or ArkType schema')
  }
  const sandbox = compileSandbox(options.run, options.sandbox)
  const policy = compilePolicy(options)
  return {
    name: name(options.name, 'name'),
    schema: options.input,
    policy,
    retryable: options.retryable,
    traffic: compileJobTraffic(options),
    batch: undefined,
    run: typeof options.run === 'function' ? options.run : notHere(options.name),
    sandbox,
    idempotency: compileIdempotency(options.idempotency, policy),
    transactional: compileTransactional(options.transactional, sandbox),
    evolution: compileEvolution(options),
    search: compileSearch(options.search),
  }
}

function compileTransactional(raw: boolean | undefined, sandbox: CompiledSandbox | undefined): boolean {
  if (raw !== undefined && typeof raw !== 'boolean') throw invalid('transactional', raw, 'true or false')
  if (raw === true && sandbox !== undefined)
    throw invalid('transactional', raw, 'a handler that is a function: no transaction reaches into a sandbox')
  return raw ?? false
}

export const definitionOptions = [
  'name',
  'input',
  'queue',
  'priority',
  'maxAttempts',
  'maxCrashes',
  'timeout',
  'retain',
  'backoff',
  'retryable',
  ...jobTrafficOptions,
  'run',
  'sandbox',
  'idempotency',
  'transactional',
  'version',
  'upgrade',
  'search',
]

export function checkDefinition(
  job: AnyJob,
  expected = 'a definition made by defineJob',
  field = 'job',
): void {
  if (typeof job?.run !== 'function' || job.policy === undefined) throw invalid(field, job, expected)
}

/** The schema's word on a value: the parsed value or INVALID_INPUT. Asynchronous schemas give a promise. */
export function parseInput(job: AnyJob, input: unknown): unknown {
  return job.schema === undefined ? input : parseWith(job.schema, input, `input of job '${job.name}'`)
}

/** The same of any value; `what` names it in the error. */
export function parseWith(schema: StandardSchemaV1, value: unknown, what: string): unknown {
  const result = schema['~standard'].validate(value)
  return result instanceof Promise ? result.then((r) => accept(what, r)) : accept(what, result)
}

function accept(what: string, result: StandardSchemaV1.Result<unknown>): unknown {
  if (result.issues === undefined) return result.value
  const issue = result.issues[0]
  const path = issue?.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  const field = path ? `$.${path}` : '$'
  const more = result.issues.length > 1 ? ` (and ${result.issues.length - 1} more)` : ''
  throw new MillraceError(
    'INVALID_INPUT',
    `${what} is invalid at ${field}: ${issue?.message ?? 'refused by its schema'}${more}`,
    { field, cause: result.issues },
  )
}
