import { bounds } from '../core/bounds.js'
import {
  type AnyJob,
  checkDefinition,
  type EnqueueOptions,
  type JobDefinition,
  parseInput,
} from '../core/definition.js'
import {
  type ErrorDetails,
  isMillraceError,
  MillraceError,
  type QueueFullError,
  queueFull,
} from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import { laneNames } from '../core/lanes.js'
import { noUnknown } from '../core/options.js'
import type { InsertResult } from '../core/store.js'
import type { Overflow } from '../core/traffic/depth.js'
import { gather, nextTurn } from '../system/turn.js'
import type { Declarations } from './declare.js'
import type { EnqueueStatus, Inspector, JobHandle } from './inspect.js'
import { encodeInput, enqueueOptions, newJob } from './new-job.js'
import { type Placement, placement } from './placement.js'
import { Rooms } from './room.js'
import type { Runtime } from './runtime.js'

export interface TransactionOption {
  /**
   * The caller's own transaction: the job exists if and only if it commits. For SQLite a better-sqlite3
   * database inside a transaction; the call then throws at once, so that an error rolls it back. For PostgreSQL a
   * transaction of pg, postgres, Drizzle, Kysely, Knex, Prisma or TypeORM; await the call before the commit. A queue at its
   * depth limit throws QUEUE_FULL whatever its `overflow` says: a transaction is not held open to wait for room,
   * and never commits without its job.
   */
  readonly tx?: unknown
}

interface Waiting {
  readonly job: NewJob
  readonly resolve: (result: InsertResult) => void
  readonly reject: (error: unknown) => void
}

/**
 * What is added at a time: timers go on meanwhile, workers of this process keep up, and no message to a server is larger
 * than a few inputs of the largest size.
 */
const atATime = { jobs: bounds.batch, text: 4 * bounds.payloadBytes }

function countFrom(texts: readonly string[], from: number): number {
  let size = 0
  let count = 0
  while (count < atATime.jobs && from + count < texts.length) {
    size += texts[from + count]?.length ?? 0
    if (size > atATime.text && count > 0) break
    count++
  }
  return count
}

/** Adds jobs. All calls of one turn of the event loop become one insert; each resolves after its commit. */
export class Enqueuer {
  readonly #runtime: Runtime
  readonly #inspector: Inspector
  #waiting: Waiting[] = []
  readonly #inserting = new Set<Promise<void>>()
  readonly #declarations: Declarations
  readonly #rooms: Rooms

  constructor(runtime: Runtime, inspector: Inspector, declarations: Declarations) {
    this.#runtime = runtime
    this.#inspector = inspector
    this.#declarations = declarations
    this.#rooms = new Rooms(runtime)
  }

  enqueue<I, O, R>(
    job: JobDefinition<I, O, R>,
    input: I,
    options?: EnqueueOptions & TransactionOption,
  ): Promise<JobHandle<R>> {
    return options?.tx === undefined
      ? this.#enqueue(job, input, options)
      : this.#enqueueIn(options.tx, job, input, options)
  }

  async enqueueMany<I, O, R>(
    job: JobDefinition<I, O, R>,
    inputs: Iterable<I>,
    options?: Omit<EnqueueOptions, 'id'>,
  ): Promise<JobHandle<R>[]> {
    checkDefinition(job)
    if (options !== undefined) noUnknown(options, manyOptions, 'enqueueMany')
    const texts: string[] = []
    const places: (Placement | undefined)[] = []
    for (const input of inputs) {
      const checked = parseInput(job, input)
      if (checked instanceof Promise) await checked
      texts.push(encodeInput(this.#runtime, input))
      const place = placement(job, input, options)
      if (place !== undefined) places[texts.length - 1] = place
    }
    await this.#runtime.ready()
    options?.signal?.throwIfAborted()
    if (job.traffic !== undefined) await this.#declared(job)
    const handles: JobHandle<R>[] = []
    for (let i = 0; i < texts.length; i = handles.length) {
      await nextTurn()
      const batch = texts
        .slice(i, i + countFrom(texts, i))
        .map((text, k) => newJob(this.#runtime, job, text, places[i + k], options))
      const insert = (jobs: readonly NewJob[]) => this.#runtime.store.insert(jobs)
      const results = await this.#admit(batch, insert, options?.signal, i)
      for (let k = 0; k < batch.length; k++)
        handles.push(this.#handle(batch[k] as NewJob, results[k] as InsertResult))
    }
    return handles
  }

  async #enqueue<I, O, R>(
    job: JobDefinition<I, O, R>,
    input: I,
    options?: EnqueueOptions,
  ): Promise<JobHandle<R>> {
    checkDefinition(job)
    // The schema's verdict counts, not its output: the worker parses again, and a transform must not run twice.
    const checked = parseInput(job, input)
    if (checked instanceof Promise) await checked
    const place = placement(job, input, options)
    const added = newJob(this.#runtime, job, encodeInput(this.#runtime, input), place, options)
    if (!this.#runtime.isReady()) await this.#runtime.ready()
    options?.signal?.throwIfAborted()
    if (job.traffic !== undefined) await this.#declared(job)
    const insert = async () => [await this.#insert(added)]
    const [result] = await this.#admit([added], insert, options?.signal)
    return this.#handle(added, result as InsertResult)
  }

  #enqueueIn<I, O, R>(
    tx: unknown,
    job: JobDefinition<I, O, R>,
    input: I,
    options: EnqueueOptions,
  ): Promise<JobHandle<R>> {
    checkDefinition(job)
    if (!this.#runtime.isReady()) {
      throw new MillraceError(
        'STORE_REFUSED',
        'the store is not open yet: await mill.open() before enqueueing in a transaction',
      )
    }
    if (parseInput(job, input) instanceof Promise) {
      throw new MillraceError(
        'INVALID_INPUT',
        `job '${job.name}' has an asynchronous schema, which cannot be used in a transaction`,
      )
    }
    const place = placement(job, input, options)
    const added = newJob(this.#runtime, job, encodeInput(this.#runtime, input), place, options)
    options.signal?.throwIfAborted()
    const inserted = this.#runtime.store.insert([added], tx)
    return inserted.then(([result]) => this.#handle(added, result as InsertResult))
  }

  /** Jobs that are made already, by whoever hears of each of them what became of it. */
  async insert(jobs: readonly NewJob[]): Promise<InsertResult[]> {
    const results: InsertResult[] = []
    for (let i = 0; i < jobs.length; i = results.length) {
      const texts = jobs.slice(i, i + atATime.jobs).map(({ input }) => input)
      const batch = jobs.slice(i, i + countFrom(texts, 0))
      results.push(...(await this.#runtime.store.insert(batch)))
      for (let k = 0; k < batch.length; k++) this.#tell(batch[k] as NewJob, results[i + k] as InsertResult)
    }
    return results
  }

  /** A job that is made already. */
  async add<R>(job: NewJob): Promise<JobHandle<R>> {
    const insert = async () => [await this.#insert(job)]
    const [result] = await this.#admit([job], insert, undefined)
    return this.#handle(job, result as InsertResult)
  }

  /** Those who wait for room try once more, and learn that it is over. */
  close(): void {
    this.#rooms.close()
  }

  /** Resolves when what was asked for so far has been written or refused. */
  async flushed(): Promise<void> {
    if (this.#waiting.length > 0) await nextTurn()
    await Promise.all(this.#inserting)
  }

  /** The store knows the limits before the first job that has them. */
  async #declared(job: AnyJob): Promise<void> {
    if (!this.#declarations.has(job)) await this.#declarations.add(job)
  }

  #insert(job: NewJob): Promise<InsertResult> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) gather(() => this.#flush())
      this.#waiting.push({ job, resolve, reject })
    })
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = []
    const texts = waiting.map(({ job }) => job.input)
    for (let i = 0, count = 0; i < waiting.length; i += count) {
      count = countFrom(texts, i)
      this.#insertBatch(waiting.slice(i, i + count))
    }
  }

  #insertBatch(batch: readonly Waiting[]): void {
    const inserting = this.#tryInsert(batch).finally(() => this.#inserting.delete(inserting))
    this.#inserting.add(inserting)
  }

  async #tryInsert(batch: readonly Waiting[]): Promise<void> {
    try {
      const results = await this.#runtime.store.insert(batch.map((entry) => entry.job))
      for (let i = 0; i < batch.length; i++) batch[i]?.resolve(results[i] as InsertResult)
    } catch (error) {
      if (batch.length === 1 || isMillraceError(error)) {
        for (const entry of batch) entry.reject(error)
      } else {
        // One of them is at fault: callers that share nothing but a turn must not fail together.
        for (const entry of batch) await this.#tryInsert([entry])
      }
    }
  }

  /**
   * Inserts them. A full queue is waited for, or refuses the rest; `before` of the same call came earlier. Who
   * waits stands in line before it tries once more, so that no sign of room is missed in between.
   */
  async #admit(
    jobs: readonly NewJob[],
    insert: (jobs: readonly NewJob[]) => Promise<InsertResult[]>,
    signal: AbortSignal | undefined,
    before = 0,
  ): Promise<InsertResult[]> {
    const results = await insert(jobs)
    const rest = new Refused(jobs, results, before)
    if (!rest.waits()) return results
    const place = this.#rooms.enter(jobs[0] as NewJob)
    try {
      while (rest.waits()) {
        place.tries()
        const tried = rest.next()
        const taken = rest.took(tried, await insert(tried.map((i) => jobs[i] as NewJob)))
        if (taken > 0) place.opened()
        if (taken < tried.length) await place.room(signal).catch((reason) => rest.abandon(reason))
      }
    } finally {
      place.leave()
    }
    return results
  }

  #handle<R>(added: NewJob, result: InsertResult): JobHandle<R> {
    this.#tell(added, result)
    return this.#inspector.handle<R>(result.id ?? added.id, result.status as EnqueueStatus)
  }

  #tell(added: NewJob, { status, id = added.id }: InsertResult): void {
    const { name, queue } = added
    const { events } = this.#runtime
    if (status === 'shed' || status === 'deferred') {
      const priority = laneNames[added.lane] ?? 'default'
      events.emit('shed', { id, name, queue, priority, deferred: status === 'deferred' })
    } else if (events.wants('enqueued')) {
      events.emit('enqueued', { id, name, queue, duplicate: status === 'duplicate' })
    }
  }
}

/** Jobs of one call, all of one queue and lane, that it has no room for. */
class Refused {
  readonly #jobs: readonly NewJob[]
  readonly #results: InsertResult[]
  readonly #before: number
  #rest: number[]

  constructor(jobs: readonly NewJob[], results: InsertResult[], before: number) {
    this.#jobs = jobs
    this.#results = results
    this.#before = before
    this.#rest = results.flatMap(({ status }, i) => (status === 'full' ? [i] : []))
  }

  /** Whether there are any; throws if the queue is not one to wait for. */
  waits(): boolean {
    if (this.#rest.length === 0) return false
    if (!this.#overflow.wait) throw this.#full()
    return true
  }

  /** Nobody waits any longer, for this reason; it alone would not tell what was added before. */
  abandon(reason: unknown): never {
    throw this.#added === 0 ? reason : this.#full({ cause: reason })
  }

  /** Which to try next: no more than the queue could ever hold. */
  next(): readonly number[] {
    return this.#rest.slice(0, this.#overflow.limit)
  }

  /** How many of those tried are in. */
  took(tried: readonly number[], results: readonly InsertResult[]): number {
    for (const [k, i] of tried.entries()) this.#results[i] = results[k] as InsertResult
    const left = this.#rest.length
    this.#rest = this.#rest.filter((i) => this.#results[i]?.status === 'full')
    return left - this.#rest.length
  }

  #full(details?: ErrorDetails): QueueFullError {
    const { queue } = this.#jobs[this.#first] as NewJob
    return queueFull(queue, this.#overflow, this.#added, details)
  }

  /** All of the call that come before the first that is left. */
  get #added(): number {
    return this.#before + this.#first
  }

  get #overflow(): Overflow {
    return (this.#results[this.#first] as { overflow: Overflow }).overflow
  }

  get #first(): number {
    return this.#rest[0] as number
  }
}

/** Ids are of one job, and a caller's transaction is of one call. */
const manyOptions = enqueueOptions.filter((option) => option !== 'id' && option !== 'tx')
