import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import type { Family } from '../core/family.js'
import {
  type AttemptRecord,
  type Failure,
  isFinal,
  type JobRecord,
  type JobState,
  type LogLine,
} from '../core/job.js'
import { laneNames, type Priority } from '../core/lanes.js'
import { compileRetain, integer, noUnknown } from '../core/options.js'
import type { JobFilter } from '../core/store.js'
import { clean } from '../core/text.js'
import { type Graph, readGraph } from './graph.js'
import type { Runtime } from './runtime.js'
import { Watcher } from './watch.js'

/** A job as it was at one moment, decoded. */
export interface JobSnapshot<R = unknown> {
  readonly id: string
  readonly name: string
  readonly queue: string
  readonly priority: Priority
  readonly state: JobState
  readonly input: unknown
  readonly result: R | undefined
  readonly failure: Failure | undefined
  readonly cancelReason: string | undefined
  readonly progress: unknown
  readonly attempt: number
  readonly maxAttempts: number
  readonly crashes: number
  readonly worker: string | undefined
  readonly tags: readonly string[]
  readonly metadata: unknown
  readonly group: string | undefined
  readonly key: string | undefined
  /** Its place among jobs that wait for each other; undefined for one that is not. */
  readonly family: JobFamily | undefined
  readonly createdAt: Date
  readonly dueAt: Date | undefined
  readonly startedAt: Date | undefined
  readonly finishedAt: Date | undefined
  readonly expiresAt: Date | undefined
}

/** A job's place in a flow or a batch. */
export interface JobFamily {
  /**
   * Id of the flow or batch: `mill.job(id).graph()` shows all of it. Where those that wait for it are gone, it may be
   * the job's own.
   */
  readonly flow: string
  /** Its name in the flow, if it has one. */
  readonly node: string | undefined
  /** Ids of jobs that wait for it. */
  readonly parents: readonly string[]
  /** Jobs that it ever waited for. */
  readonly children: number
  /** How many of them have not ended. */
  readonly left: number
  /** How many died or were cancelled and so keep it from running. */
  readonly failed: number
  /** More of them may come: a batch that has not been sealed, or a flow that is being added. */
  readonly open: boolean
}

/** A step of a job, as it was at one moment. */
export interface JobStep {
  readonly name: string
  /** A sleep or a wait that is not over. */
  readonly waiting: boolean
  /** What it gave: the payload of its signal, for a wait. */
  readonly value: unknown
  /** When a sleep or a wait ends, or ended, at the latest. */
  readonly until: Date | undefined
  /** When it was written. */
  readonly at: Date
}

export interface PageOptions {
  /** @default 100 */
  readonly limit?: number | undefined
  /** Goes on where the page that returned it ended. */
  readonly cursor?: string | undefined
}

/** A page may be short and still have a cursor, when the filter matches few. */
export interface JobList {
  readonly jobs: readonly JobSnapshot[]
  readonly cursor: string | undefined
}

export interface WaitOptions {
  /** Gives up with WAIT_TIMEOUT after this long; the job goes on. @default no limit */
  readonly timeout?: Duration
  readonly signal?: AbortSignal
}

/**
 * What became of a cancel: done, asked of the handler, or too late. A saga that has begun is always asked; it is undone
 * or, past its point of no return, goes on.
 */
export type CancelResult = 'cancelled' | 'asked' | 'finished'

/**
 * `duplicate`: another job stands, because of its id or key. `replaced`: the one that stands has taken over the
 * new input. `deferred` and `shed`: the queue is overloaded, and the job was put off, or dropped and does not
 * exist.
 */
export type EnqueueStatus = 'inserted' | 'duplicate' | 'replaced' | 'deferred' | 'shed'

/** The caller's end of one job. Works for a job of any process; `R` is what its handler returns. */
export class JobHandle<R = unknown> {
  /** Of the job that stands, which need not be the one that was enqueued. */
  readonly id: string
  /** What became of the enqueue; undefined for a handle that none returned. */
  readonly status: EnqueueStatus | undefined
  readonly #inspector: Inspector

  constructor(id: string, status: EnqueueStatus | undefined, inspector: Inspector) {
    this.id = id
    this.status = status
    this.#inspector = inspector
  }

  /** Another job stands, and this handle is of that one. */
  get duplicate(): boolean {
    return this.status === 'duplicate'
  }

  /** Everything known of the job; undefined when it never existed or is kept no more. */
  get(): Promise<JobSnapshot<R> | undefined> {
    return this.#inspector.get<R>(this.id)
  }

  async state(): Promise<JobState> {
    return (await this.#inspector.find(this)).state
  }

  /** Waits for the end: the handler's result, or JOB_DEAD, JOB_CANCELLED or WAIT_TIMEOUT. */
  result(options: WaitOptions = {}): Promise<R> {
    return this.#inspector.result<R>(this, options)
  }

  cancel(reason = 'cancelled'): Promise<CancelResult> {
    return this.#inspector.cancel(this, reason)
  }

  /** Yields the job now and after each change of state, attempt or progress, until it has ended. */
  watch(options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<JobSnapshot<R>, void, undefined> {
    return this.#inspector.watch<R>(this, options.signal)
  }

  /** Failed attempts, newest last, bounded. */
  async attempts(): Promise<readonly AttemptRecord[]> {
    return (await this.#inspector.trail(this)).attempts
  }

  /** What the handler logged, newest last, bounded. */
  async logs(): Promise<readonly LogLine[]> {
    return (await this.#inspector.trail(this)).logs
  }

  /**
   * The job with all that it waits for, directly or not, and their states: of the job that a flow leads to, all of the
   * flow. @param options.limit 1 to 10,000 jobs; 1,000 unless told
   */
  graph(options: { readonly limit?: number } = {}): Promise<Graph> {
    return this.#inspector.graph(this, options)
  }

  /** The steps that its handler has taken, in the order in which they were written. */
  steps(): Promise<readonly JobStep[]> {
    return this.#inspector.steps(this)
  }
}

/** A job, and what became of its enqueue if that is known: it explains why there is none. */
type Sought = Pick<JobHandle, 'id'> & Partial<Pick<JobHandle, 'status'>>

/** Reads jobs and waits for them. */
export class Inspector {
  readonly #runtime: Runtime
  readonly #watcher: Watcher

  constructor(runtime: Runtime) {
    this.#runtime = runtime
    this.#watcher = new Watcher(runtime)
  }

  handle<R>(id: string, status?: EnqueueStatus): JobHandle<R> {
    return new JobHandle<R>(id, status, this)
  }

  close(): void {
    this.#watcher.close()
  }

  async list(filter: JobFilter, page: PageOptions = {}): Promise<JobList> {
    await this.#runtime.ready()
    const limit = integer(page.limit ?? 100, 'limit', 1, bounds.page)
    const { jobs, cursor } = await this.#runtime.store.list({ filter, limit, cursor: page.cursor })
    return { jobs: jobs.map((job) => this.snapshot(job)), cursor }
  }

  async get<R>(id: string): Promise<JobSnapshot<R> | undefined> {
    const record = await this.#read(id)
    return record === undefined ? undefined : this.snapshot<R>(record)
  }

  async find(job: Sought): Promise<JobRecord> {
    const record = await this.#read(job.id)
    if (record === undefined) throw notFound(job)
    return record
  }

  async trail(job: Sought) {
    await this.#runtime.ready()
    const trail = await this.#runtime.store.trail(job.id)
    if (trail === undefined) throw notFound(job)
    return trail
  }

  async graph(job: Sought, options: { readonly limit?: number }): Promise<Graph> {
    noUnknown(options, ['limit'], 'graph')
    const limit = integer(options.limit ?? 1_000, 'limit', 1, 10_000)
    const graph = await readGraph(this.#runtime, job.id, limit)
    if (graph === undefined) throw notFound(job)
    return graph
  }

  async steps(job: Sought): Promise<readonly JobStep[]> {
    const { steps } = await this.trail(job)
    return steps.map(({ name, open, value, until, at }) => ({
      name,
      waiting: open,
      value: value === undefined ? undefined : this.#decode(value),
      until: date(until),
      at: new Date(at),
    }))
  }

  async cancel(job: Sought, reason: string): Promise<CancelResult> {
    const { id } = job
    await this.#runtime.ready()
    const retain = compileRetain(undefined).completed
    const command = { do: 'cancel', reason: clean(reason, bounds.reasonText), retain } as const
    const { affected, asked, missing } = await this.#runtime.store.operate({ ids: [id] }, command)
    if (missing.length > 0) throw notFound(job)
    if (affected.length > 0) await this.#tellCancelled(id, command.reason)
    return affected.length > 0 ? 'cancelled' : asked.length > 0 ? 'asked' : 'finished'
  }

  async #tellCancelled(id: string, reason: string): Promise<void> {
    const { events } = this.#runtime
    if (!events.wants('cancelled')) return
    try {
      const job = await this.#read(id)
      if (job !== undefined) events.emit('cancelled', { id, name: job.name, queue: job.queue, reason })
    } catch (error) {
      // The cancel is done, whether or not it can be told.
      events.emit('error', { error, during: 'cancel' })
    }
  }

  async result<R>(job: Sought, options: WaitOptions): Promise<R> {
    const record = await this.#until(job, ({ state }) => isFinal(state), options)
    const { id, failure } = record
    if (record.state === 'completed') return this.#decodeResult<R>(record)
    if (record.state === 'cancelled') {
      throw new MillraceError(
        'JOB_CANCELLED',
        `job ${id} was cancelled: ${record.cancelReason ?? 'no reason given'}`,
        failure === undefined ? {} : { cause: failure },
      )
    }
    throw new MillraceError(
      'JOB_DEAD',
      `job ${id} (${record.name}) died at attempt ${record.attempt}: ${failure?.message ?? 'unknown cause'}`,
      {
        cause: failure,
      },
    )
  }

  async *watch<R>(
    job: Sought,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<JobSnapshot<R>, void, undefined> {
    let seen = ''
    for (;;) {
      const options = signal === undefined ? {} : { signal }
      const record = await this.#until(job, (now) => version(now) !== seen, options)
      seen = version(record)
      yield this.snapshot<R>(record)
      if (isFinal(record.state)) return
    }
  }

  snapshot<R>(record: JobRecord): JobSnapshot<R> {
    return {
      id: record.id,
      name: record.name,
      queue: record.queue,
      priority: laneNames[record.lane] ?? 'default',
      state: record.state,
      input: this.#decode(record.input),
      result: this.#decodeResult<R | undefined>(record),
      failure: record.failure,
      cancelReason: record.cancelReason,
      progress: record.progress === undefined ? undefined : this.#decode(record.progress),
      attempt: record.attempt,
      maxAttempts: record.maxAttempts,
      crashes: record.crashes,
      worker: record.worker,
      tags: record.tags ?? [],
      metadata: record.metadata === undefined ? undefined : jsonCodec.decode(record.metadata),
      group: record.group,
      key: record.key,
      family: record.family && familyOf(record.family),
      createdAt: new Date(record.createdAt),
      dueAt: date(record.dueAt),
      startedAt: date(record.startedAt),
      finishedAt: date(record.finishedAt),
      expiresAt: date(record.expiresAt),
    }
  }

  /** Resolves with the record as soon as `done` says so. */
  async #until(sought: Sought, done: (job: JobRecord) => boolean, options: WaitOptions): Promise<JobRecord> {
    const { id } = sought
    const timeout = options.timeout === undefined ? undefined : milliseconds(options.timeout, 'timeout')
    await this.#runtime.ready()
    return new Promise<JobRecord>((resolve, reject) => {
      let over = false
      const finish = (settle: () => void) => {
        if (over) return
        over = true
        unwatch()
        cancelTimer()
        options.signal?.removeEventListener('abort', onAbort)
        settle()
      }
      const onAbort = () => finish(() => reject(options.signal?.reason))
      const unwatch = this.#watcher.watch(id, {
        seen: (job) => {
          if (job === undefined) finish(() => reject(notFound(sought)))
          else if (done(job)) finish(() => resolve(job))
        },
        failed: (error) => finish(() => reject(error)),
      })
      const cancelTimer =
        timeout === undefined
          ? () => {}
          : this.#runtime.clock.after(timeout, () => finish(() => reject(waitTimeout(id, timeout))))
      if (options.signal?.aborted) return onAbort()
      options.signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  async #read(id: string): Promise<JobRecord | undefined> {
    await this.#runtime.ready()
    return (await this.#runtime.store.get([id]))[0]
  }

  #decodeResult<R>(record: JobRecord): R {
    return (record.result === undefined ? undefined : this.#decode(record.result)) as R
  }

  /** A damaged row is shown as the text it holds; reading it must not fail. */
  #decode(text: string): unknown {
    try {
      return this.#runtime.codec.decode(text)
    } catch {
      return text
    }
  }
}

function version(job: JobRecord): string {
  return `${job.state}:${job.attempt}:${job.crashes}:${job.dueAt ?? ''}:${job.progress ?? ''}:${job.cancelReason ?? ''}`
}

/** How far a parent is; a store counts one that is open as waiting for itself, too. */
export function familyOf({ flow, node, parents, children, waiting, failed, open }: Family): JobFamily {
  return { flow, node, parents, children, left: waiting - (open ? 1 : 0), failed, open }
}

function date(time: number | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time)
}

function notFound({ id, status }: Sought): MillraceError {
  const why =
    status === 'shed'
      ? 'was shed because its queue was too full, and never added; enqueue it again when there is room'
      : 'does not exist; it may have ended and its retention may be over'
  return new MillraceError('JOB_NOT_FOUND', `job ${id} ${why}`, { field: 'id', value: id })
}

function waitTimeout(id: string, timeout: number): MillraceError {
  return new MillraceError('WAIT_TIMEOUT', `job ${id} did not end within ${timeout} ms; it goes on`, {
    limit: timeout,
  })
}
