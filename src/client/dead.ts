import { bounds } from '../core/bounds.js'
import type { AnyJob, EnqueueOptions } from '../core/definition.js'
import { parseInput } from '../core/definition.js'
import { milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { checkTtl } from '../core/idempotency.js'
import type { JobRecord } from '../core/job.js'
import {
  type CompiledPolicy,
  integer,
  invalid,
  lane,
  name,
  noUnknown,
  type PolicyOverrides,
  readOverrides,
  time,
} from '../core/options.js'
import type { FieldFilter } from '../core/search.js'
import type { Cause, Command, JobFilter, OperateReport, RetryChange } from '../core/store.js'
import { fieldFilter } from './field.js'
import type { Inspector, JobHandle, JobList, PageOptions } from './inspect.js'
import { encodeInput, overrides } from './new-job.js'
import { placement } from './placement.js'
import type { Runtime } from './runtime.js'

/** Which dead letters; an empty filter means all. */
export interface DeadFilter {
  readonly name?: string | undefined
  readonly queue?: string | undefined
  readonly tag?: string | undefined
  readonly field?: FieldFilter | undefined
  /** A group's fingerprint, from `groups()`. */
  readonly cause?: string | undefined
  /** When it died: from `after` (inclusive) to `before`. */
  readonly after?: Date | undefined
  readonly before?: Date | undefined
}

export interface DeadGroup {
  readonly cause: string
  /** The definition of the first of them. Those that died of another job (CHILD_FAILED) may be of several. */
  readonly name: string
  /** Of the last of them. */
  readonly message: string
  readonly count: number
  readonly firstAt: Date
  readonly lastAt: Date
  /** Id of a job that died of it. */
  readonly sample: string
}

export interface RetryOptions
  extends Pick<
    EnqueueOptions,
    'queue' | 'priority' | 'maxAttempts' | 'backoff' | 'timeout' | 'retain' | 'delay'
  > {
  /** Replaces the input; checked by the job's schema when this process knows the job. */
  readonly input?: unknown
  /**
   * Forgets the steps that the job has done, so that it begins anew; what they did is done again, under the same
   * keys. Otherwise it goes on where it stood, unless it had completed. @default false
   */
  readonly fresh?: boolean
}

export interface RetryAllOptions {
  /** Jobs per second. The spacing is stored with the jobs, so it holds when this process ends. @default no limit */
  readonly rate?: number
  /**
   * This many go first and must complete before the others follow. Of jobs that died of another one, which a replay
   * cannot mend, only where there is none besides. @default 0
   */
  readonly canary?: number
  /** How long to wait for the canaries. @default '5m' */
  readonly canaryTimeout?: number | string
  readonly signal?: AbortSignal
  readonly onProgress?: (done: number) => void
}

export interface RetryAllReport {
  readonly retried: number
  readonly canaries: readonly string[]
  /** A canary did not complete, so the rest stayed dead. */
  readonly stopped: boolean
}

/** Dead letters: look, group by cause, fix, replay, purge. */
export class DeadLetters {
  readonly #runtime: Runtime
  readonly #inspector: Inspector
  readonly #jobs: ReadonlyMap<string, AnyJob>

  constructor(runtime: Runtime, inspector: Inspector, jobs: ReadonlyMap<string, AnyJob>) {
    this.#runtime = runtime
    this.#inspector = inspector
    this.#jobs = jobs
  }

  /** Newest first. Goes on with `cursor`; a page may be short when the filter matches few. */
  async list(filter: DeadFilter = {}, page: PageOptions = {}): Promise<JobList> {
    return this.#inspector.list(this.#compile(filter), page)
  }

  /** One group for each cause, the most recent first. */
  async groups(): Promise<readonly DeadGroup[]> {
    await this.#runtime.ready()
    const causes = await this.#runtime.store.causes()
    return causes.map((cause: Cause) => ({
      ...cause,
      firstAt: new Date(cause.firstAt),
      lastAt: new Date(cause.lastAt),
    }))
  }

  /**
   * Gives one dead (or cancelled, or completed) job a new life, with changes where given. A saga takes no
   * `maxAttempts`, and one that was undone is refused unless it is `fresh`.
   */
  async retry(id: string, options: RetryOptions = {}): Promise<JobHandle> {
    noUnknown(
      options,
      ['input', 'queue', 'priority', 'maxAttempts', 'backoff', 'timeout', 'retain', 'delay', 'fresh'],
      'retry',
    )
    const job = await this.#inspector.find({ id })
    refuseForSaga(job, options)
    const change = await this.#change(job, options)
    const delay = options.delay === undefined ? 0 : milliseconds(options.delay, 'delay')
    const report = await this.#runtime.store.operate(
      { ids: [id] },
      { do: 'retry', delay, spacing: 0, change },
    )
    if (report.missing.length > 0)
      throw new MillraceError('JOB_NOT_FOUND', `job ${id} does not exist any more`, { value: id })
    if (report.refused.length > 0) {
      throw new MillraceError(
        'JOB_NOT_FINISHED',
        `job ${id} is ${job.state}; only a finished job can be retried`,
        { value: job.state },
      )
    }
    return this.#inspector.handle(id)
  }

  /** Replays all that match: canaries first, the rest at a rate, in bounded steps. */
  async retryAll(filter: DeadFilter = {}, options: RetryAllOptions = {}): Promise<RetryAllReport> {
    noUnknown(options, ['rate', 'canary', 'canaryTimeout', 'signal', 'onProgress'], 'retryAll')
    if (options.rate !== undefined && !(options.rate > 0 && options.rate <= 1e6)) {
      throw invalid('rate', options.rate, 'jobs per second, above 0 and at most 1,000,000', 1e6)
    }
    const canary = integer(options.canary ?? 0, 'canary', 0, bounds.batch)
    await this.#runtime.ready()
    const canaries = canary === 0 ? [] : await this.#retryCanaries(this.#compile(filter), canary)
    options.onProgress?.(canaries.length)
    if (!(await this.#allComplete(canaries, options)))
      return { retried: canaries.length, canaries, stopped: true }
    const spacing = options.rate === undefined ? 0 : 1000 / options.rate
    let retried = canaries.length
    let cursor: string | undefined
    // The newest go first, so a job that dies again meanwhile is behind the cursor and not met twice.
    do {
      options.signal?.throwIfAborted()
      const delay = spacing * (retried - canaries.length)
      const command: Command = { do: 'retry', delay, spacing, change: {} }
      const report: OperateReport = await this.#runtime.store.operate(
        { filter: this.#compile(filter), limit: bounds.batch, cursor },
        command,
      )
      retried += report.affected.length
      cursor = report.cursor
      options.onProgress?.(retried)
    } while (cursor !== undefined)
    return { retried, canaries, stopped: false }
  }

  /** Removes for good all that match, in bounded steps; returns how many. */
  async purge(filter: DeadFilter = {}): Promise<number> {
    await this.#runtime.ready()
    let purged = 0
    let cursor: string | undefined
    do {
      const selector = { filter: this.#compile(filter), limit: bounds.batch, cursor }
      const report: OperateReport = await this.#runtime.store.operate(selector, { do: 'remove' })
      purged += report.affected.length
      cursor = report.cursor
    } while (cursor !== undefined)
    return purged
  }

  async #retryCanaries(filter: JobFilter, limit: number): Promise<readonly string[]> {
    const mendable = await this.#retrySome({ ...filter, mendable: true }, limit)
    return mendable.length > 0 ? mendable : this.#retrySome(filter, limit)
  }

  async #retrySome(filter: JobFilter, limit: number): Promise<readonly string[]> {
    const command: Command = { do: 'retry', delay: 0, spacing: 0, change: {} }
    const retried: string[] = []
    let cursor: string | undefined
    do {
      const selector = { filter, limit: limit - retried.length, cursor }
      const report: OperateReport = await this.#runtime.store.operate(selector, command)
      retried.push(...report.affected)
      cursor = report.cursor
    } while (cursor !== undefined && retried.length < limit)
    return retried
  }

  async #allComplete(ids: readonly string[], options: RetryAllOptions): Promise<boolean> {
    const wait = {
      timeout: options.canaryTimeout ?? '5m',
      ...(options.signal !== undefined && { signal: options.signal }),
    }
    const ends = await Promise.allSettled(ids.map((id) => this.#inspector.result({ id }, wait)))
    options.signal?.throwIfAborted()
    return ends.every((end) => end.status === 'fulfilled')
  }

  async #change(job: JobRecord, options: RetryOptions): Promise<RetryChange> {
    const definition = this.#jobs.get(job.name)
    const edited = 'input' in options
    const own = overridesAfter(job, definition, options, edited)
    const maxAttempts =
      options.maxAttempts === undefined
        ? undefined
        : integer(options.maxAttempts, 'maxAttempts', 1, bounds.attempts)
    if (definition?.idempotency !== undefined && (own !== undefined || maxAttempts !== undefined))
      checkTtl(definition.idempotency.ttl, policyAfter(job, definition, own, maxAttempts))
    return {
      ...(edited && {
        input: await this.#input(job.name, options.input),
        ...this.#placement(job.name, options.input),
      }),
      ...(options.queue !== undefined && { queue: name(options.queue, 'queue') }),
      ...(options.priority !== undefined && { lane: lane(options.priority) }),
      ...(maxAttempts !== undefined && { maxAttempts }),
      ...(own !== undefined && { overrides: JSON.stringify(own) }),
      ...(options.fresh !== undefined && { fresh: options.fresh }),
    }
  }

  /** Another input may belong to another group or key. */
  #placement(job: string, input: unknown): Pick<RetryChange, 'traffic' | 'dedupe' | 'guard' | 'search'> {
    const definition = this.#jobs.get(job)
    // Who does not know its fields leaves none that it had before.
    if (definition === undefined) return { search: null }
    const place = placement(definition, input, undefined)
    const { traffic = null, dedupe = null, guard = null, search = null } = place ?? {}
    return {
      search,
      ...(definition.traffic !== undefined && { traffic, dedupe }),
      ...(definition.idempotency !== undefined && { guard }),
    }
  }

  #compile(filter: DeadFilter): JobFilter {
    noUnknown(filter, ['name', 'queue', 'tag', 'field', 'cause', 'after', 'before'], 'filter')
    const { name, queue, tag, field, cause, after, before } = filter
    return {
      ...{ state: 'dead', name, queue, tag, cause },
      field: fieldFilter(field, name, this.#jobs),
      after: time(after, 'after'),
      before: time(before, 'before'),
    }
  }

  async #input(job: string, input: unknown): Promise<string> {
    const definition = this.#jobs.get(job)
    if (definition !== undefined) await parseInput(definition, input)
    return encodeInput(this.#runtime, input)
  }
}

/** A saga counts its own attempts, and one that was undone knows each of its steps as undone. */
function refuseForSaga({ id, name, unwinds, state, failure }: JobRecord, options: RetryOptions): void {
  if (!unwinds) return
  const { maxAttempts, fresh } = options
  if (maxAttempts !== undefined)
    throw invalid('maxAttempts', maxAttempts, `none, because job '${name}' is a saga; set it with defineSaga`)
  if (state === 'cancelled' && failure?.code === 'SAGA_COMPENSATED' && fresh !== true)
    throw new MillraceError(
      'SAGA_COMPENSATED',
      `job ${id} is a saga that was undone, so a retry has nothing to do; enqueue a new one, whose keys are new too, or retry with fresh: true to do its steps again under the same keys`,
      { field: 'fresh', value: fresh },
    )
}

function policyAfter(
  job: JobRecord,
  { policy }: AnyJob,
  own: PolicyOverrides | undefined,
  maxAttempts = job.maxAttempts,
): CompiledPolicy {
  return { ...policy, ...(own ?? readOverrides(job.overrides)), maxAttempts, maxCrashes: job.maxCrashes }
}

/**
 * What the job carries from now on; undefined when that stays as it is. An edited input has the form that the
 * definition has now; any other keeps the form that it was enqueued with.
 */
function overridesAfter(
  job: JobRecord,
  definition: AnyJob | undefined,
  options: RetryOptions,
  edited: boolean,
): PolicyOverrides | undefined {
  const before = readOverrides(job.overrides)
  const changes = overrides({ evolution: undefined }, options)
  const version = edited && definition !== undefined ? definition.evolution?.version : before.version
  if (Object.keys(changes).length === 0 && version === before.version) return undefined
  const { version: _, ...policy } = { ...before, ...changes }
  return { ...policy, ...(version !== undefined && { version }) }
}
