import { bounds } from '../core/bounds.js'
import { type AnyJob, type EnqueueOptions, type JobDefinition, parseInput } from '../core/definition.js'
import { isMillraceError, MillraceError, QueueFullError } from '../core/errors.js'
import type { Overflow } from '../core/flow/depth.js'
import type { NewJob } from '../core/job.js'
import { laneNames } from '../core/lanes.js'
import { invalid, noUnknown } from '../core/options.js'
import type { InsertResult } from '../core/store.js'
import { gather, nextTurn } from '../system/turn.js'
import type { Declarations } from './declare.js'
import type { EnqueueStatus, Inspector, JobHandle } from './inspect.js'
import { encodeInput, enqueueOptions, newJob, type Placement, placement } from './new-job.js'
import { Rooms } from './room.js'
import type { Runtime } from './runtime.js'

export interface TransactionOption {
  /**
   * The caller's own transaction: the job exists if and only if it commits. For SQLite a better-sqlite3
   * database inside a transaction; the call then throws at once, so that an error rolls it back.
   */
  readonly tx?: unknown
}

interface Waiting {
  readonly job: NewJob
  readonly resolve: (result: InsertResult) => void
  readonly reject: (error: unknown) => void
}

/** Jobs of one `enqueueMany` per turn: timers go on meanwhile, and workers of this process keep up. */
const perTurn = 500

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
    await this.#declared(job)
    const handles: JobHandle<R>[] = []
    for (let i = 0; i < texts.length; i += perTurn) {
      await nextTurn()
      const batch = texts
        .slice(i, i + perTurn)
        .map((text, k) => newJob(this.#runtime, job, text, places[i + k], options))
      const results = await this.#runtime.store.insert(batch)
      for (let k = 0; k < batch.length; k++) {
        const [added, result] = [batch[k] as NewJob, results[k] as InsertResult]
        handles.push(
          result.overflow === undefined
            ? this.#handle(job, added, result)
            : await this.#admitted(job, added, result, options?.signal, handles.length),
        )
      }
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
    if (job.flow !== undefined) await this.#declared(job)
    return this.#admitted(job, added, await this.#insert(added), options?.signal)
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
    const inserted = this.#runtime.store.insert([added], tx)
    return inserted.then(([result]) => {
      // A transaction must not be held open to wait for room.
      if (result?.overflow !== undefined) throw fullError(added, result.overflow)
      return this.#handle(job, added, result as InsertResult)
    })
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
    if (!this.#declarations.has(job)) await this.#declarations.declare([job])
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
    for (let i = 0; i < waiting.length; i += bounds.batch)
      this.#insertBatch(waiting.slice(i, i + bounds.batch))
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

  /** A full queue is waited for, or refuses the job. */
  async #admitted<R>(
    job: AnyJob,
    added: NewJob,
    first: InsertResult,
    signal: AbortSignal | undefined,
    before = 0,
  ): Promise<JobHandle<R>> {
    let result = first
    for (; result.overflow !== undefined; result = await this.#insert(added)) {
      if (!result.overflow.wait) throw fullError(added, result.overflow, before)
      await this.#rooms.wait(added.queue, signal)
    }
    if (result !== first) this.#rooms.opened(added.queue)
    return this.#handle(job, added, result)
  }

  #handle<R>(job: AnyJob, added: NewJob, { status, id = added.id }: InsertResult): JobHandle<R> {
    const { name, queue } = added
    const { events } = this.#runtime
    if (status === 'shed' || status === 'deferred') {
      const priority = laneNames[added.lane] ?? 'default'
      events.emit('shed', { id, name, queue, priority, deferred: status === 'deferred' })
    } else if (events.wants('enqueued')) {
      events.emit('enqueued', { id, name: job.name, queue, duplicate: status === 'duplicate' })
    }
    return this.#inspector.handle<R>(id, status as EnqueueStatus)
  }
}

/** Ids are of one job, and a caller's transaction is of one call. */
const manyOptions = enqueueOptions.filter((option) => option !== 'id' && option !== 'tx')

/** A guess: nobody knows how fast the queue is worked off. */
const retryAfterMs = 1_000

/** `added`: how many of the same call were added before. */
function fullError({ queue }: NewJob, { depth, limit }: Overflow, added = 0): QueueFullError {
  return new QueueFullError({ queue, depth, limit, retryAfter: retryAfterMs, added })
}

function checkDefinition(job: AnyJob): void {
  if (typeof job?.run !== 'function' || job.policy === undefined)
    throw invalid('job', job, 'a definition made by defineJob')
}
