import type { Duration } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { integer, invalid, noUnknown } from '../core/options.js'
import { Opening } from '../system/opening.js'
import { type Appended, type AppendOptions, append } from './append.js'
import { catchUp, type ReachedOptions, reached } from './catch-up.js'
import type { Aggregate } from './define-aggregate.js'
import type { AnyEvent, DraftOf, EventOf, EventOfType } from './define-event.js'
import type { AnyProjection } from './define-projection.js'
import { type Decide, type Executed, type ExecuteOptions, execute } from './execute.js'
import { declareAll, follower, followers, forget, recordOf } from './generations.js'
import { type EventStoreEvents, type EventStoreListener, Listeners } from './listeners.js'
import { type Loaded, load } from './load.js'
import type { EventLog } from './log.js'
import { logFromUrl } from './log-url.js'
import {
  type CompiledStore,
  compileStore,
  type EventSource,
  type EventStoreOptions,
  type KnownEvent,
} from './options.js'
import {
  type FollowOptions,
  follow,
  type ReadAllOptions,
  type ReadOptions,
  readAll,
  readStream,
} from './read.js'
import { abandonRebuild, rebuild } from './rebuild.js'
import { compileRebuild, type RebuildOptions, type Rebuilt } from './rebuild-options.js'
import type { EventRuntime } from './runtime.js'
import { readSkipped, type SkippedEvent } from './skipped.js'
import { type EventStats, readStats } from './stats.js'
import { streamName } from './stream-name.js'
import { tableOf } from './table.js'
import { type TidyReport, tidy } from './tidy.js'
import { EventWorker } from './worker.js'
import type { EventWorkerOptions } from './worker-options.js'

/**
 * What happened, for good: streams of events with versions, over one log. State is what they come to (aggregates), or
 * what projections make of them. Opens the log on first use.
 */
export class EventStore<S extends EventSource = AnyEvent, E extends KnownEvent<S> = KnownEvent<S>> {
  readonly #runtime: StoreRuntime
  readonly #workers = new Set<EventWorker>()

  constructor(options: EventStoreOptions<S>) {
    this.#runtime = new StoreRuntime(compileStore(options as EventStoreOptions))
  }

  /** Opens the log now, so that a wrong path or a server that is away shows at the start. */
  open(): Promise<void> {
    return this.#runtime.ready()
  }

  /**
   * Adds events to a stream, all or none. Resolves when they are there for good. With `tx` it throws at once where it
   * would reject, and the caller's transaction must then be rolled back.
   */
  append(stream: string, events: readonly DraftOf<E>[], options?: AppendOptions): Promise<Appended> {
    const written = append(this.#runtime, stream, events, options)
    return written instanceof Promise
      ? written.then(({ appended }) => appended)
      : Promise.resolve(written.appended)
  }

  /** The events of a stream, in order. A stream that is not there has none. */
  read(stream: string, options?: ReadOptions): AsyncGenerator<EventOf<E>, void, undefined> {
    return readStream(this.#runtime, stream, options) as AsyncGenerator<EventOf<E>, void, undefined>
  }

  /** The events of all streams in the order of their positions, up to the newest of now. */
  readAll<Type extends E['type'] = E['type']>(
    options?: ReadAllOptions<Type>,
  ): AsyncGenerator<EventOfType<E, Type>, void, undefined> {
    return readAll(this.#runtime, options) as never
  }

  /**
   * The events of all streams, and then those that come, none left out, for as long as it is read. Whoever reads keeps
   * the position; a projection does that by itself.
   */
  follow<Type extends E['type'] = E['type']>(
    options?: FollowOptions<Type>,
  ): AsyncGenerator<EventOfType<E, Type>, void, undefined> {
    return follow(this.#runtime, options) as never
  }

  /** What the stream's events come to, and its version; the initial state and 0 when it is not there. */
  load<State, A extends E>(aggregate: Aggregate<State, A>, stream: string): Promise<Loaded<State>> {
    return load(this.#runtime, aggregate, stream)
  }

  /**
   * A command: loads the state, has `decide` say what happens, and appends that, if the stream is still as it was
   * loaded. Otherwise it begins anew, a bounded number of times, so `decide` may be called more than once.
   */
  execute<State, A extends E>(
    aggregate: Aggregate<State, A>,
    stream: string,
    decide: Decide<State, A>,
    options?: ExecuteOptions,
  ): Promise<Executed<State>> {
    return execute(this.#runtime, aggregate, stream, decide, options)
  }

  /** Runs projections, and retention, in this process; call `start` on it. */
  worker(options?: EventWorkerOptions): EventWorker {
    const worker = new EventWorker(this.#runtime, options)
    this.#workers.add(worker)
    void worker.stopped.then(() => this.#workers.delete(worker))
    return worker
  }

  /**
   * Builds a projection anew, beside the live one: the next generation gets a table of its own, is made from the first
   * event on by this process's handlers, and takes the live one's place in one transaction once it has caught up. Readers
   * see one or the other. Killed at any point it goes on with the next call; `abandon` gives it up.
   */
  async rebuild(projection: AnyProjection | string, options: RebuildOptions = {}): Promise<Rebuilt> {
    const compiled = compileRebuild(options)
    const known = follower(this.#runtime, projection)
    if (known.kind === 'reaction')
      throw invalid('projection', known.name, 'a projection: a reaction would do again all that it ever did')
    return rebuild(this.#runtime, known, compiled)
  }

  /** Gives up the generation that is being built, wherever that is; false when none is. */
  async abandon(projection: AnyProjection | string): Promise<boolean> {
    return abandonRebuild(this.#runtime, follower(this.#runtime, projection))
  }

  /**
   * The table of the generation that is live now. A rebuild removes it a while after another has taken its place, so ask
   * before each use, or have `swapped` point a view at it.
   */
  async table(projection: AnyProjection | string): Promise<string> {
    const known = follower(this.#runtime, projection)
    await this.#runtime.ready()
    return tableOf(known.name, (await recordOf(this.#runtime, known)).live)
  }

  /**
   * Runs projections in this process until they have seen all events of now: for tests, and for scripts. Rejects with
   * what a handler throws.
   * @param projections all that are not inline, unless some are named
   */
  async catchUp(...projections: readonly (AnyProjection | string)[]): Promise<void> {
    const known = projections.map((projection) => follower(this.#runtime, projection))
    await catchUp(this.#runtime, known.length > 0 ? known : followers(this.#runtime))
  }

  /** Resolves when a projection has seen all up to this position, such as that of an append: then its readers see it, too. */
  async reached(
    projection: AnyProjection | string,
    position: number,
    options: ReachedOptions = {},
  ): Promise<void> {
    noUnknown(options, ['timeout'], 'reached')
    integer(position, 'position', 0, Number.MAX_SAFE_INTEGER)
    await reached(this.#runtime, follower(this.#runtime, projection), position, options)
  }

  /** What a projection has set aside, the newest first. */
  skipped(projection: AnyProjection | string): AsyncGenerator<SkippedEvent, void, undefined> {
    return readSkipped(this.#runtime, follower(this.#runtime, projection).name)
  }

  /**
   * Forgets a projection that no process has any more, which would hold up retention for ever. Its tables are left to the
   * caller. Known here, it would begin anew when the store is opened next. A name that the log does not know is refused.
   */
  async forget(projection: string): Promise<void> {
    await this.#runtime.ready()
    await forget(this.#runtime, projection)
  }

  /** How far projections are, and who works on them. */
  stats(): Promise<EventStats> {
    return readStats(this.#runtime)
  }

  /**
   * Removes a bounded number of the events that retention has no more use for; a worker does so now and then. What a
   * projection has not seen yet stays.
   */
  tidy(): Promise<TidyReport> {
    const signal = this.#runtime.closing
    const tidying = tidy(this.#runtime, { owner: 'tidy', lease: tidyLeaseMs, signal })
    this.#runtime.background(tidying.catch(() => {}))
    return tidying
  }

  /** Removes a stream's events and snapshots for good, as the law may ask for. Its name stays taken, its version stands. */
  async erase(stream: string): Promise<void> {
    streamName(stream)
    await this.#runtime.ready()
    while (!(await this.#runtime.log.erase(stream, eraseLimit)));
  }

  /** Listens to what this process does. Returns a function that ends it. */
  on<N extends keyof EventStoreEvents>(name: N, listener: EventStoreListener<N>): () => void {
    return this.#runtime.listeners.on(name, listener)
  }

  /** Stops the workers, each with its grace, and closes the log. */
  async close(options: { readonly grace?: Duration } = {}): Promise<void> {
    noUnknown(options, ['grace'], 'close')
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)))
    await this.#runtime.close()
  }
}

const tidyLeaseMs = 30_000

const eraseLimit = 500

class StoreRuntime implements EventRuntime {
  readonly catalogue: EventRuntime['catalogue']
  readonly clock: EventRuntime['clock']
  readonly projections: EventRuntime['projections']
  readonly retention: EventRuntime['retention']
  readonly listeners = new Listeners()
  readonly #given: string | EventLog
  readonly #opening = new Opening(() => this.#open())
  readonly #background = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()
  #log: EventLog | undefined
  #isOpen = false

  constructor({ log, catalogue, clock, projections, retention }: CompiledStore) {
    this.#given = log
    this.catalogue = catalogue
    this.clock = clock
    this.projections = projections
    this.retention = retention
  }

  get log(): EventLog {
    if (this.#log === undefined) throw closed()
    return this.#log
  }

  get closing(): AbortSignal {
    return this.#closing.signal
  }

  get isReady(): boolean {
    return this.#isOpen
  }

  ready(): Promise<void> {
    return this.closing.aborted ? Promise.reject(closed()) : this.#opening.done()
  }

  background(work: Promise<unknown>): void {
    const done: Promise<void> = work.then(() => void this.#background.delete(done))
    this.#background.add(done)
  }

  async close(): Promise<void> {
    this.#closing.abort(closed())
    await this.#opening.over()
    await Promise.all(this.#background)
    const log = this.#log
    this.#log = undefined
    this.#isOpen = false
    await log?.close()
  }

  async #open(): Promise<void> {
    this.#log ??= typeof this.#given === 'string' ? await logFromUrl(this.#given, this.clock) : this.#given
    await this.#log.open()
    await declareAll(this)
    this.#isOpen = true
  }
}

function closed(): MillraceError {
  return new MillraceError('CLOSED', 'this event store is closed; make a new one')
}
