import { Batches, type BatchHandle, type NewBatch } from './client/batch.js'
import { DeadLetters } from './client/dead.js'
import { Declarations, type Declared } from './client/declare.js'
import { Enqueuer, type TransactionOption } from './client/enqueue.js'
import { fieldFilter } from './client/field.js'
import { type FlowOptions, Flows } from './client/flow.js'
import type { AnyFlow, Flow, FlowChain, FlowResult } from './client/flow-types.js'
import { DefinitionHandle } from './client/gates.js'
import { Idempotency, type IdempotentContext, type IdempotentOptions } from './client/idempotency.js'
import { Inspector, type JobHandle, type JobList, type PageOptions } from './client/inspect.js'
import type { Limiter } from './client/limiter.js'
import { Limiters } from './client/limiters.js'
import { QueueHandle } from './client/queue.js'
import type { Runtime } from './client/runtime.js'
import type { ScheduleOptions } from './client/schedule-options.js'
import { ScheduleHandle, type ScheduleList, Schedules } from './client/schedules.js'
import { type SentSignal, type SignalOptions, sendSignal } from './client/signal.js'
import { readStats, type Stats } from './client/stats.js'
import { bounds } from './core/bounds.js'
import type { Clock } from './core/clock.js'
import { type Codec, jsonCodec } from './core/codec.js'
import { type AnyJob, checkDefinition, type EnqueueOptions, type JobDefinition } from './core/definition.js'
import type { Duration } from './core/duration.js'
import { MillraceError } from './core/errors.js'
import { Emitter, type EventName, type Listener, type MillraceEvents } from './core/events.js'
import { type JobState, jobStates, type NewJob } from './core/job.js'
import { integer, invalid, jobId, name, noUnknown, oneOf, time } from './core/options.js'
import type { AnyNode } from './core/plan.js'
import type { FieldFilter } from './core/search.js'
import type { InsertResult, Store } from './core/store.js'
import { compileQueue, type QueueOptions, type RateOptions } from './core/traffic/options.js'
import { checkStore, storeFromUrl } from './store-url.js'
import { systemClock } from './system/clock.js'
import { Opening } from './system/opening.js'
import type { WorkerOptions } from './worker/options.js'
import { Worker } from './worker/worker.js'

export interface MillraceOptions {
  /** `'memory:'`, `'sqlite:path/to/file.db'`, `'postgres://user@host/database'`, `'redis://host'`, or a store object. */
  readonly store: string | Store
  /** The jobs that this process's workers can run. */
  readonly jobs?: readonly AnyJob[]
  /**
   * Limits of queues. What was chosen at run time wins over them. A queue that is not named keeps what was declared
   * before, here or by another process; to take that back, declare it without limits: `{ mail: {} }`.
   */
  readonly queues?: Readonly<Record<string, QueueOptions>>
  /** Rates of limiters by name, for `limiter` of definitions and `mill.limiter(name)`. */
  readonly limiters?: Readonly<Record<string, RateOptions>>
  /** @default jsonCodec */
  readonly codec?: Codec
  /** Bytes of an encoded input. @default 1 MiB */
  readonly maxPayload?: number
  /** Bytes of an encoded result. @default 1 MiB */
  readonly maxResult?: number
  /** For tests: workers and waits follow it. A store has its own. @default the system's */
  readonly clock?: Clock
  /** For tests: jitter comes from it. @default Math.random */
  readonly random?: () => number
}

export interface JobsFilter {
  readonly state: JobState
  readonly name?: string | undefined
  readonly queue?: string | undefined
  readonly tag?: string | undefined
  readonly field?: FieldFilter | undefined
  /** Bounds on when it was created (pending), started (running), falls due, or ended. */
  readonly after?: Date | undefined
  readonly before?: Date | undefined
}

const millraceOptions = [
  'store',
  'jobs',
  'queues',
  'limiters',
  'codec',
  'maxPayload',
  'maxResult',
  'clock',
  'random',
] as const satisfies readonly (keyof MillraceOptions)[]

/** One job system over one store. Opens the store on first use. */
export class Millrace {
  /** Dead letters: list, group, retry, purge. */
  readonly dead: DeadLetters
  /** Idempotency keys by hand: begin, complete, fail. */
  readonly idempotency: Idempotency
  readonly #runtime: MillraceRuntime
  readonly #jobs = new Map<string, AnyJob>()
  readonly #inspector: Inspector
  readonly #enqueuer: Enqueuer
  readonly #flows: Flows
  readonly #batches: Batches
  readonly #schedules: Schedules
  readonly #workers = new Set<Worker>()

  constructor(options: MillraceOptions) {
    noUnknown(options, millraceOptions, 'Millrace')
    for (const job of options.jobs ?? []) this.#register(job)
    this.#runtime = new MillraceRuntime(options, this.#jobs)
    this.#inspector = new Inspector(this.#runtime)
    this.#enqueuer = new Enqueuer(this.#runtime, this.#inspector, this.#runtime.declarations)
    this.#flows = new Flows(this.#runtime, this.#inspector, this.#runtime.declarations)
    this.#batches = new Batches(this.#runtime, this.#inspector, this.#runtime.declarations)
    this.#schedules = new Schedules(this.#runtime, this.#enqueuer, this.#runtime.declarations)
    this.dead = new DeadLetters(this.#runtime, this.#inspector, this.#jobs)
    this.idempotency = new Idempotency(this.#runtime)
  }

  /** Opens the store now, so that a wrong path or a damaged file shows at the start. */
  open(): Promise<void> {
    return this.#runtime.ready()
  }

  /**
   * Adds a job. Resolves when the store has it for good; an `id` that exists gives the job that stands. With `tx`
   * it throws at once where it would reject, also when the queue is full.
   */
  enqueue<I, O, R>(
    job: JobDefinition<I, O, R>,
    input: NoInfer<I>,
    options?: EnqueueOptions & TransactionOption,
  ): Promise<JobHandle<R>> {
    return this.added(this.#enqueuer.enqueue(job, input, options))
  }

  /**
   * Adds many jobs. All inputs are checked before the first is written; then they are written in batches,
   * so a store that fails midway has written some of them.
   */
  enqueueMany<I, O, R>(
    job: JobDefinition<I, O, R>,
    inputs: Iterable<NoInfer<I>>,
    options?: Omit<EnqueueOptions, 'id'>,
  ): Promise<JobHandle<R>[]> {
    return this.added(this.#enqueuer.enqueueMany(job, inputs, options))
  }

  /**
   * Adds jobs that were made elsewhere, as a relay of an outbox does: all checks have been made. Nobody waits for room
   * in a full queue: what became of each is in its result.
   */
  async insert(jobs: readonly NewJob[]): Promise<InsertResult[]> {
    await this.#runtime.ready()
    return this.#enqueuer.insert(jobs)
  }

  /**
   * Adds jobs that depend on each other. A tree: `{ job, input, children: […] }`, where a job runs after its
   * children and reads their results. Or a graph: `{ nodes: { name: { job, input, after: [names] } } }`. Up to 500
   * jobs are added at once or not at all; a larger flow in several writes, and children may come from a generator.
   * What cannot be added as a whole is cancelled. The handle is that of the job that the flow leads to, with its
   * result; a graph with several last jobs ends with all of them, and has none. Any process gets it by the flow's id:
   * `mill.job(id)`, and `mill.job(id).graph()` shows all jobs of the flow.
   */
  flow<const T extends AnyFlow>(flow: T & Flow<T>, options?: FlowOptions): Promise<JobHandle<FlowResult<T>>> {
    return this.added('nodes' in flow ? this.#flows.graph(flow, options) : this.#flows.tree(flow, options))
  }

  /** Adds jobs that run one after the other; each can read the result of the one before it. */
  chain<const C extends readonly AnyNode[]>(
    links: C & FlowChain<C>,
    options?: FlowOptions,
  ): Promise<
    JobHandle<C extends readonly [...unknown[], infer Last] ? FlowResult<Last> : FlowResult<C[number]>>
  > {
    return this.added(this.#flows.chain(links, options))
  }

  /**
   * A set of jobs, to be added to it, with jobs that follow from what becomes of them. Seal it after the last one. Its
   * `result()` resolves with nothing when all of them have ended, whatever way.
   */
  batch<C, S, D>(options: NewBatch<C, S, D>): Promise<BatchHandle>
  /** The handle of a batch by its id, in any process: adds to it, seals it, tells how far it is. */
  batch(id: string): BatchHandle
  batch<C, S, D>(given: string | NewBatch<C, S, D>): BatchHandle | Promise<BatchHandle> {
    return typeof given === 'string' ? this.#batches.handle(given) : this.#batches.make(given)
  }

  /** The handle of a job, or of a flow, by its id, in any process. Pass its definition to type the result: `mill.job(id, sendEmail)`. */
  job<I = unknown, O = I, R = unknown>(id: string, _definition?: JobDefinition<I, O, R>): JobHandle<R> {
    return this.#inspector.handle<R>(jobId(id))
  }

  /** Jobs in one state, page by page: finished ones newest first, waiting ones in the order of their turn. */
  jobs(filter: JobsFilter, page?: PageOptions): Promise<JobList> {
    noUnknown(filter, ['state', 'name', 'queue', 'tag', 'field', 'after', 'before'], 'filter')
    const { after, before, ...rest } = filter
    oneOf(filter.state, jobStates, 'state')
    const field = fieldFilter(filter.field, filter.name, this.#jobs)
    return this.#inspector.list(
      { ...rest, field, after: time(after, 'after'), before: time(before, 'before') },
      page,
    )
  }

  queue(name: string): QueueHandle {
    return new QueueHandle(this.#runtime, name)
  }

  /** A kind of job, by its definition or name: its limits and breaker, at run time. */
  definition(job: AnyJob | string): DefinitionHandle {
    if (typeof job === 'string') return new DefinitionHandle(this.#runtime, job)
    checkDefinition(job, 'a definition made by defineJob, or its name')
    return new DefinitionHandle(this.#runtime, job.name)
  }

  /**
   * A rate limit by name, for code outside of jobs and for definitions with `limiter: name`. Shared by all
   * processes. A rate is declared once the store is open; another one than before is declared anew. Limiters are
   * kept for good: for a limit per user, of whom there are many, give a definition a `key` and a `keyLimit`.
   */
  limiter(name: string, rate?: RateOptions): Limiter {
    this.#runtime.refuseWhenClosed()
    return this.#runtime.limiters.of(name, rate)
  }

  /**
   * Does the work once per key, over all processes, and stores what came of it: whoever calls with the same key later
   * gets that. While another is at it, waits for the end. Work that throws is not done, and the next call tries again.
   * Keys are not those of jobs with `idempotency`.
   */
  idempotent<R>(
    key: string | number,
    fn: (context: IdempotentContext) => R | PromiseLike<R>,
    options: IdempotentOptions = {},
  ): Promise<R> {
    return this.idempotency.run(key, fn, options)
  }

  /**
   * Adds or changes a recurrence: each of its slots fires exactly one job, however many processes there are. A
   * deploy that repeats it changes nothing; another `cron`, `every`, `tz`, `from` or `until` begins afresh, anything
   * else holds from the next slot on. Without options: the handle of one that is there.
   */
  schedule<I, O, R>(name: string, options: ScheduleOptions<I, O, R>): Promise<ScheduleHandle<R>>
  schedule(name: string): ScheduleHandle
  schedule<I, O, R>(
    name: string,
    options?: ScheduleOptions<I, O, R>,
  ): Promise<ScheduleHandle<R>> | ScheduleHandle {
    return options === undefined
      ? new ScheduleHandle(name, this.#schedules)
      : this.#schedules.put(name, options)
  }

  /** Schedules by name, page by page. */
  schedules(page?: PageOptions): Promise<ScheduleList> {
    return this.#schedules.list(page)
  }

  /**
   * Tells the jobs that wait for this key, with `step.waitFor(key)`, and those that will while it is kept. Each of
   * them gets the payload. Resolves when the store has it for good.
   */
  signal(key: string, payload?: unknown, options?: SignalOptions): Promise<SentSignal> {
    return sendSignal(this.#runtime, key, payload, options)
  }

  stats(): Promise<Stats> {
    return readStats(this.#runtime)
  }

  /** A worker for the jobs given to the constructor; call `start` on it. */
  worker(options: WorkerOptions = {}): Worker {
    this.#runtime.refuseWhenClosed()
    const worker = new Worker(this.#runtime, this.#jobs, options)
    this.#workers.add(worker)
    void worker.stopped.then(() => this.#workers.delete(worker))
    return worker
  }

  /** Listens to what this process does. Returns a function that ends it. */
  on<E extends EventName>(event: E, listener: Listener<E>): () => void {
    if (event === 'breaker' || event === 'quarantine') this.#runtime.listenToStore()
    return this.#runtime.events.on(event, listener)
  }

  /** Stops the workers, each with its grace, and closes the store. */
  async close(options: { readonly grace?: Duration } = {}): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)))
    this.#runtime.limiters.close()
    await this.#enqueuer.flushed()
    await this.#runtime.close()
    this.#enqueuer.close()
    this.#inspector.close()
  }

  /** Jobs are being added; a kind of Millrace for tests runs them before it goes on. */
  protected added<T>(adding: Promise<T>): Promise<T> {
    return adding
  }

  #register(job: AnyJob): void {
    if (typeof job?.run !== 'function') throw invalid('jobs', job, 'definitions made by defineJob')
    if (this.#jobs.has(job.name)) throw invalid('jobs', job.name, 'each name once')
    this.#jobs.set(job.name, job)
  }
}

class MillraceRuntime implements Runtime {
  readonly codec: Codec
  readonly clock: Clock
  readonly random: () => number
  readonly events: Emitter
  readonly limits: Runtime['limits']
  readonly #given: string | Store
  #store: Store | undefined
  /** The same before it is open. */
  #coming: Store | undefined
  readonly declarations = new Declarations(() => this.store)
  readonly limiters = new Limiters(this, this.declarations)
  readonly #jobs: ReadonlyMap<string, AnyJob>
  readonly #queues: readonly Declared[]
  readonly #opening = new Opening(() => this.#open())
  #isOpen = false
  #closed = false
  #listening = false
  #subscribed: Store | undefined

  constructor(options: MillraceOptions, jobs: ReadonlyMap<string, AnyJob>) {
    this.#jobs = jobs
    this.#queues = Object.entries(options.queues ?? {}).map(([queue, raw]) => ({
      name: name(queue, 'queues'),
      settings: compileQueue(raw, `queues.${queue}`),
    }))
    for (const [limiter, rate] of Object.entries(options.limiters ?? {}))
      this.limiters.give(limiter, rate, `limiters.${limiter}`)
    checkStore(options.store)
    this.#given = options.store
    this.codec = options.codec ?? jsonCodec
    this.clock = options.clock ?? systemClock
    this.random = options.random ?? Math.random
    this.events = new Emitter(warn)
    this.limits = {
      payload: integer(options.maxPayload ?? bounds.payloadBytes, 'maxPayload', 1, 1 << 30),
      result: integer(options.maxResult ?? bounds.resultBytes, 'maxResult', 1, 1 << 30),
    }
  }

  get store(): Store {
    if (this.#store === undefined)
      throw new MillraceError('CLOSED', 'the store is not open; await mill.open() first')
    return this.#store
  }

  isReady(): boolean {
    return this.#isOpen
  }

  ready(): Promise<void> {
    if (this.#closed) return Promise.reject(closedError())
    const opening = this.#opening.done()
    return this.#isOpen && this.limiters.areDeclared ? opening : opening.then(() => this.limiters.declare())
  }

  refuseWhenClosed(): void {
    if (this.#closed) throw closedError()
  }

  async close(): Promise<void> {
    this.#closed = true
    // An attempt to open it need not come to its end.
    if (this.#store === undefined) await this.#coming?.close()
    await this.#opening.over()
    const store = this.#store
    this.#store = undefined
    this.#isOpen = false
    await store?.close()
  }

  async #open(): Promise<void> {
    this.#coming ??=
      typeof this.#given === 'string' ? await storeFromUrl(this.#given, this.clock) : this.#given
    const store = this.#coming
    if (this.#closed) throw closedError()
    await store.open()
    this.#store = store
    await this.limiters.declare()
    await this.declarations.declare([...this.#jobs.values()])
    await this.declarations.declareQueues(this.#queues)
    if (this.#listening) this.#subscribe(store)
    await this.limiters.warnOfMissing(this.#limitersOfJobs())
    this.#isOpen = true
    await this.limiters.declare() // what was given meanwhile
  }

  #limitersOfJobs(): ReadonlyMap<string, string> {
    const pairs = [...this.#jobs.values()].map(
      ({ name, traffic }) => [name, traffic?.settings.limiter] as const,
    )
    return new Map(pairs.filter((pair): pair is [string, string] => pair[1] !== undefined))
  }

  /** Events that the store tells, whoever caused them in this process. */
  listenToStore(): void {
    if (this.#listening) return
    this.#listening = true
    if (this.#store !== undefined) this.#subscribe(this.#store)
  }

  #subscribe(store: Store): void {
    if (this.#subscribed === store) return
    this.#subscribed = store
    store.subscribe((signal) => {
      if (signal.type === 'breaker') this.events.emit('breaker', { job: signal.job, phase: signal.phase })
      if (signal.type === 'quarantine') this.events.emit('quarantine', { job: signal.job, on: signal.on })
    })
  }
}

function closedError(): MillraceError {
  return new MillraceError('CLOSED', 'this Millrace is closed; make a new one')
}

/** An error that nobody listens to must still be seen. */
function warn({ error, during }: MillraceEvents['error']): void {
  const text = error instanceof Error ? error.message : String(error)
  process.emitWarning(`${during}: ${text} (listen with mill.on('error', …))`, 'MillraceWarning')
}
