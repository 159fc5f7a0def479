import { bounds } from '../core/bounds.js'
import { type AnyJob, type EnqueueOptions, type JobDefinition, parseInput } from '../core/definition.js'
import { isMillraceError, MillraceError } from '../core/errors.js'
import type { JobFlow } from '../core/flow.js'
import type { NewJob } from '../core/job.js'
import { invalid, noUnknown } from '../core/options.js'
import type { InsertResult } from '../core/store.js'
import { gather, nextTurn } from '../system/turn.js'
import type { Declarations } from './declare.js'
import type { Inspector, JobHandle } from './inspect.js'
import { encodeInput, enqueueOptions, flowOf, newJob } from './new-job.js'
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

  constructor(runtime: Runtime, inspector: Inspector, declarations: Declarations) {
    this.#runtime = runtime
    this.#inspector = inspector
    this.#declarations = declarations
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
    const flows: (JobFlow | undefined)[] = []
    for (const input of inputs) {
      const checked = parseInput(job, input)
      if (checked instanceof Promise) await checked
      texts.push(encodeInput(this.#runtime, input))
      const flow = flowOf(job, input, options)
      if (flow !== undefined) flows[texts.length - 1] = flow
    }
    await this.#runtime.ready()
    await this.#declared(job)
    const handles: JobHandle<R>[] = []
    for (let i = 0; i < texts.length; i += perTurn) {
      await nextTurn()
      const batch = texts
        .slice(i, i + perTurn)
        .map((text, k) => newJob(this.#runtime, job, text, flows[i + k], options))
      const results = await this.#runtime.store.insert(batch)
      for (let k = 0; k < batch.length; k++)
        handles.push(this.#handle(job, batch[k] as NewJob, results[k] as InsertResult))
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
    const flow = flowOf(job, input, options)
    const added = newJob(this.#runtime, job, encodeInput(this.#runtime, input), flow, options)
    if (!this.#runtime.isReady()) await this.#runtime.ready()
    if (job.flow !== undefined) await this.#declared(job)
    return this.#handle(job, added, await this.#insert(added))
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
    const flow = flowOf(job, input, options)
    const added = newJob(this.#runtime, job, encodeInput(this.#runtime, input), flow, options)
    const inserted = this.#runtime.store.insert([added], tx)
    return inserted.then(([result]) => this.#handle(job, added, result as InsertResult))
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

  #handle<R>(job: AnyJob, added: NewJob, result: InsertResult): JobHandle<R> {
    const duplicate = result.status === 'duplicate'
    const { events } = this.#runtime
    if (events.wants('enqueued'))
      events.emit('enqueued', { id: added.id, name: job.name, queue: added.queue, duplicate })
    return this.#inspector.handle<R>(added.id, duplicate)
  }
}

/** Ids are of one job, and a caller's transaction is of one call. */
const manyOptions = enqueueOptions.filter((option) => option !== 'id' && option !== 'tx')

function checkDefinition(job: AnyJob): void {
  if (typeof job?.run !== 'function' || job.policy === undefined)
    throw invalid('job', job, 'a definition made by defineJob')
}
