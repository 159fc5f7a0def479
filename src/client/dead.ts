import { bounds } from '../core/bounds.js'
import type { AnyJob, EnqueueOptions } from '../core/definition.js'
import { parseInput } from '../core/definition.js'
import { milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { integer, invalid, lane, name, noUnknown, time } from '../core/options.js'
import type { Cause, Command, JobFilter, OperateReport, RetryChange } from '../core/store.js'
import type { Inspector, JobHandle, JobList, PageOptions } from './inspect.js'
import { encodeInput, overrides } from './new-job.js'
import { placement } from './placement.js'
import type { Runtime } from './runtime.js'

/** Which dead letters; an empty filter means all. */
export interface DeadFilter {
  readonly name?: string | undefined
  readonly queue?: string | undefined
  readonly tag?: string | undefined
  /** A group's fingerprint, from `groups()`. */
  readonly cause?: string | undefined
  /** When it died: from `after` (inclusive) to `before`. */
  readonly after?: Date | undefined
  readonly before?: Date | undefined
}

export interface DeadGroup {
  readonly cause: string
  readonly name: string
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
  /** This many go first and must complete before the others follow. @default 0 */
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
    return this.#inspector.list(compile(filter), page)
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

  /** Gives one dead (or cancelled, or completed) job a new life, with changes where given. */
  async retry(id: string, options: RetryOptions = {}): Promise<JobHandle> {
    noUnknown(
      options,
      ['input', 'queue', 'priority', 'maxAttempts', 'backoff', 'timeout', 'retain', 'delay', 'fresh'],
      'retry',
    )
    const job = await this.#inspector.find({ id })
    const change = await this.#change(job.name, options)
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
    const canaries = canary === 0 ? [] : await this.#retrySome(compile(filter), canary)
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
        { filter: compile(filter), limit: bounds.batch, cursor },
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
      const selector = { filter: compile(filter), limit: bounds.batch, cursor }
      const report: OperateReport = await this.#runtime.store.operate(selector, { do: 'remove' })
      purged += report.affected.length
      cursor = report.cursor
    } while (cursor !== undefined)
    return purged
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

  async #change(job: string, options: RetryOptions): Promise<RetryChange> {
    const own = overrides(options)
    return {
      ...('input' in options && {
        input: await this.#input(job, options.input),
        ...this.#placement(job, options.input),
      }),
      ...(options.queue !== undefined && { queue: name(options.queue, 'queue') }),
      ...(options.priority !== undefined && { lane: lane(options.priority) }),
      ...(options.maxAttempts !== undefined && {
        maxAttempts: integer(options.maxAttempts, 'maxAttempts', 1, bounds.attempts),
      }),
      ...(own !== undefined && { overrides: own }),
      ...(options.fresh !== undefined && { fresh: options.fresh }),
    }
  }

  /** Another input may belong to another group or key. */
  #placement(job: string, input: unknown): Pick<RetryChange, 'flow' | 'dedupe'> {
    const definition = this.#jobs.get(job)
    if (definition?.flow === undefined) return {}
    const { flow = null, dedupe = null } = placement(definition, input, undefined) ?? {}
    return { flow, dedupe }
  }

  async #input(job: string, input: unknown): Promise<string> {
    const definition = this.#jobs.get(job)
    if (definition !== undefined) await parseInput(definition, input)
    return encodeInput(this.#runtime, input)
  }
}

function compile(filter: DeadFilter): JobFilter {
  noUnknown(filter, ['name', 'queue', 'tag', 'cause', 'after', 'before'], 'filter')
  return {
    state: 'dead',
    name: filter.name,
    queue: filter.queue,
    tag: filter.tag,
    cause: filter.cause,
    after: time(filter.after, 'after'),
    before: time(filter.before, 'before'),
  }
}
