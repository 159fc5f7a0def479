import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { noUnknown } from '../core/options.js'
import { newToken } from '../system/ids.js'
import { onShutdown } from '../system/signals.js'
import { Courtesy } from './courtesy.js'
import type { Projection } from './define-projection.js'
import { checkpointsOf } from './generations.js'
import type { ProjectionRecord } from './log.js'
import { PartLease, type PartRef } from './part-lease.js'
import { type PartEnd, PartRun } from './part-run.js'
import type { EventRuntime } from './runtime.js'
import { tidy } from './tidy.js'
import { Wakes } from './wakes.js'
import { type CompiledEventWorker, compileEventWorker, type EventWorkerOptions } from './worker-options.js'

type Phase = 'new' | 'running' | 'stopping' | 'stopped'

interface Running {
  readonly ref: PartRef
  readonly run: PartRun
  readonly ended: Promise<void>
}

interface Free {
  readonly projection: Projection
  readonly ref: PartRef
  readonly position: number
}

/**
 * Runs projections: takes the parts of their live generations that nobody works on, each under a lease of its own, and
 * follows the log with them. Any number of workers can do so side by side; what one leaves, by a stop or a crash, others
 * take. Generations that are being built are left to `store.rebuild`, whose code they belong to.
 */
export class EventWorker {
  readonly id: string
  /** Resolves when it has stopped: by `stop`, by a signal, or because its store was closed. */
  readonly stopped: Promise<void>
  readonly #runtime: EventRuntime
  readonly #options: CompiledEventWorker
  readonly #running = new Map<string, Running>()
  /** Parts that are left alone until then, by the monotonic clock. */
  readonly #left = new Map<string, number>()
  /** When parts were first seen that nobody worked on, and that there was no place for here. */
  #freeSince: ReadonlyMap<string, number> = new Map()
  readonly #courtesy = new Courtesy()
  readonly #wakes: Wakes
  #phase: Phase = 'new'
  #looking: Promise<void> | undefined
  #stopping: Promise<void> | undefined
  #unsubscribe: (() => void) | undefined
  #forgetSignals: (() => void) | undefined
  #cancelTidy: (() => void) | undefined
  #tidying: Promise<void> | undefined
  readonly #tidyEnds = new AbortController()
  #tellStopped: () => void = () => {}

  constructor(runtime: EventRuntime, options: EventWorkerOptions = {}) {
    this.stopped = new Promise((resolve) => {
      this.#tellStopped = resolve
    })
    this.#runtime = runtime
    this.#options = compileEventWorker(runtime, options)
    this.id = `${this.#options.name}-${newToken().slice(0, 12)}`
    this.#wakes = new Wakes(runtime.clock)
  }

  /** How many parts it works on now. */
  get active(): number {
    return this.#running.size
  }

  async start(): Promise<void> {
    if (this.#phase !== 'new')
      throw new MillraceError('CLOSED', 'a worker starts once; make a new one with store.worker()')
    this.#phase = 'running'
    try {
      await this.#runtime.ready()
    } catch (error) {
      if (this.#phase === 'running') this.#phase = 'new'
      throw error
    }
    if (this.#phase !== 'running') return
    if (this.#options.handleSignals)
      this.#forgetSignals = onShutdown((force) => this.stop(force ? { grace: 0 } : {}))
    this.#unsubscribe = this.#runtime.log.subscribe(() => {
      for (const { run } of this.#running.values()) run.wake()
    })
    this.#tidyLater()
    this.#looking = this.#lookOnAndOn()
  }

  /** Takes no more parts, waits for the handlers that run, and undoes what is left after `grace`. */
  stop(options: { readonly grace?: Duration } = {}): Promise<void> {
    noUnknown(options, ['grace'], 'stop')
    const grace = options.grace === undefined ? this.#options.grace : milliseconds(options.grace, 'grace')
    if (this.#phase === 'new') {
      this.#phase = 'stopped'
      this.#tellStopped()
    }
    if (this.#phase === 'stopped') return Promise.resolve()
    this.#stopping ??= this.#drain(grace)
    if (options.grace !== undefined && grace === 0) this.#abort()
    return this.#stopping
  }

  async #drain(grace: number): Promise<void> {
    this.#phase = 'stopping'
    this.#wakes.wake()
    this.#cancelTidy?.()
    this.#unsubscribe?.()
    for (const { run } of this.#running.values()) run.pause()
    const cancel = this.#runtime.clock.after(grace, () => this.#abort())
    await this.#looking
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
    await this.#tidying
    cancel()
    this.#forgetSignals?.()
    this.#phase = 'stopped'
    this.#tellStopped()
  }

  #abort(): void {
    const reason = new MillraceError('SHUTDOWN', 'the worker shuts down; another goes on with this part')
    for (const { run } of this.#running.values()) run.abort(reason)
    this.#tidyEnds.abort(reason)
  }

  async #lookOnAndOn(): Promise<void> {
    while (this.#phase === 'running') {
      try {
        await this.#look()
      } catch (error) {
        this.#runtime.listeners.emit('error', { error, during: 'looking for projections' })
      }
      if (this.#phase === 'running') await this.#wakes.next(this.#options.poll)
    }
  }

  async #look(): Promise<void> {
    const records = await this.#runtime.log.projections()
    const now = this.#runtime.clock.monotonic()
    const free: Free[] = []
    for (const projection of this.#options.projections) {
      const record = records.find(({ name }) => name === projection.name)
      if (record === undefined) continue
      const aside = this.#courtesy.standsAside(record, now)
      this.#pauseSome(record, aside)
      if (!aside) free.push(...this.#freeParts(projection, record, now))
    }
    // Whoever is farthest behind comes first.
    free.sort((a, b) => a.position - b.position)
    const room = this.#options.concurrency - this.#running.size
    this.#makeRoom(free.slice(room), now)
    for (const one of free.slice(0, room)) await this.#take(one)
  }

  /** Parts that nobody has taken for a while get the places of those that had their turn. */
  #makeRoom(left: readonly Free[], now: number): void {
    const since = new Map(left.map(({ ref }) => [keyOf(ref), this.#freeSince.get(keyOf(ref)) ?? now]))
    this.#freeSince = since
    const waiting = [...since.values()].filter((at) => now - at >= patience * this.#options.poll)
    for (const { run } of [...this.#running.values()].slice(0, waiting.length)) run.pause()
  }

  /** Those of a generation that is no longer live, and all of them where it stands aside. */
  #pauseSome({ name, live }: ProjectionRecord, aside: boolean): void {
    for (const { ref, run } of this.#running.values())
      if (ref.name === name && (aside || ref.generation !== live)) run.pause()
  }

  #freeParts(projection: Projection, record: ProjectionRecord, now: number): Free[] {
    return checkpointsOf(record, record.live)
      .filter(({ owner }) => owner === undefined)
      .map(({ generation, part, position }) => ({
        projection,
        ref: { name: projection.name, generation, part },
        position,
      }))
      .filter(({ ref }) => !this.#running.has(keyOf(ref)) && (this.#left.get(keyOf(ref)) ?? now) <= now)
  }

  async #take({ projection, ref }: Free): Promise<void> {
    if (this.#phase !== 'running') return
    // One that has had its turn makes room for the next look.
    if (this.#running.size >= this.#options.concurrency)
      return this.#running.values().next().value?.run.pause()
    const lease = await PartLease.take(this.#runtime, ref, this.id, this.#options.lease)
    if (lease === undefined) return
    const run = new PartRun(this.#runtime, projection, lease, this.#options)
    const key = keyOf(ref)
    const ended = run.run().then((end) => this.#ended(key, run, lease, end))
    this.#running.set(key, { ref, run, ended })
    if (this.#phase !== 'running') run.pause()
  }

  async #ended(key: string, run: PartRun, lease: PartLease, end: PartEnd): Promise<void> {
    try {
      if (end.end === 'lost') lease.drop()
      else await lease.release(Math.max(run.seen, lease.position))
    } catch (error) {
      // It ends by itself, when its time is over.
      this.#runtime.listeners.emit('error', { error, during: 'giving back a part of a projection' })
    }
    if (end.end === 'given-up') this.#left.set(key, this.#runtime.clock.monotonic() + end.retryIn)
    else this.#left.delete(key)
    this.#running.delete(key)
  }

  #tidyLater(soon = false): void {
    const { tidy: every, lease } = this.#options
    if (every === undefined || this.#runtime.retention.size === 0) return
    this.#cancelTidy = this.#runtime.clock.after(soon ? Math.min(every, tidySoonMs) : every, () => {
      const { signal } = this.#tidyEnds
      this.#tidying = tidy(this.#runtime, { owner: this.id, lease, signal })
        .catch((error: unknown) => {
          if (!signal.aborted) this.#runtime.listeners.emit('error', { error, during: 'retention' })
        })
        .then((report) => {
          if (this.#phase === 'running') this.#tidyLater(report?.more)
        })
    })
  }
}

const tidySoonMs = 100

/** Looks that a part may be left waiting; another worker may be about to take it. */
const patience = 3

function keyOf({ name, generation, part }: PartRef): string {
  return `${name} ${generation} ${part}`
}
