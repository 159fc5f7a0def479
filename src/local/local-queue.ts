import { MillraceError, QueueFullError } from '../core/errors.js'
import { oneOf } from '../core/options.js'
import { Entry } from './entry.js'
import { Gauge } from './gauge.js'
import { Line } from './line.js'
import { Listeners } from './listeners.js'
import {
  type CompiledLocal,
  compileClose,
  compileLocal,
  compilePush,
  type LocalCloseOptions,
  type LocalQueueOptions,
  measure,
  type PushOptions,
} from './options.js'
import { Pace } from './pace.js'
import { RateGate } from './rate-gate.js'
import { Slots } from './slots.js'
import { quiet, Waiters } from './waiters.js'

/** `full` and `ready` take turns, `full` first. Listeners hear events in the order in which things happened. */
export interface LocalQueueEvents<Item> {
  full: { readonly size: number }
  ready: { readonly size: number }
  /** Nothing waits and nothing runs any more. */
  idle: { readonly size: number }
  /** An item that had been accepted gave way to another. Its push rejects with DROPPED. */
  dropped: { readonly item: Item; readonly priority: number }
  /** `run` threw. For those who push without waiting for the promise. */
  failed: { readonly item: Item; readonly error: unknown }
}

/**
 * Work for this process alone: nothing is stored, and what has not run ends with the process.
 *
 * An item is outside, waiting, running or settled. Accepted items wait and run; together they are the `size`
 * that `highWaterMark` bounds. Pushes that find no room stand outside, held by nothing but their callers'
 * awaits: a source that awaits its pushes has one there, and the queue does not grow. Outside as inside, the
 * more urgent go first, then the older.
 *
 * The queue is full from the high mark, or from the moment that something did not fit, down to the low mark.
 * While it is full, `tryPush` and `overflow: 'reject'` refuse, so that a source which backs off gets a rest.
 * `'wait'` and `'dropOldest'` use every bit of room under the high mark. An item larger than the mark runs
 * when the queue has become empty.
 *
 * Every promise is settled in the end, at the latest by `close`. One that rejects unheard does not end the
 * process; `failed` and `dropped` tell of it.
 */
export class LocalQueue<Item, Result = void> {
  readonly name: string
  readonly #options: CompiledLocal<Item, Result>
  readonly #outside = new Line<Entry<Item, Result>>()
  readonly #waiting = new Line<Entry<Item, Result>>()
  readonly #running = new Set<Entry<Item, Result>>()
  readonly #slots: Slots<Item, Result>
  readonly #gate: RateGate | undefined
  readonly #gauge: Gauge
  readonly #pace = new Pace()
  readonly #listeners = new Listeners<LocalQueueEvents<Item>>()
  readonly #untilReady = new Waiters()
  readonly #untilIdle = new Waiters()
  #closed = false
  #wasIdle = true

  constructor(options: LocalQueueOptions<Item, Result>) {
    const compiled = compileLocal(options)
    this.name = compiled.name
    this.#options = compiled
    this.#gauge = new Gauge(compiled.high, compiled.low, (full) => this.#crossed(full))
    this.#slots = new Slots(compiled.concurrency, this.#waiting)
    if (compiled.rate !== undefined) {
      this.#gate = new RateGate(compiled.rate, compiled.clock, this.#slots, () => this.#waiting.size > 0)
    }
  }

  /** What waiting and running items count together. */
  get size(): number {
    return this.#gauge.size
  }

  /** Items that were accepted and wait for a slot. */
  get pending(): number {
    return this.#waiting.size
  }

  get running(): number {
    return this.#running.size
  }

  get isFull(): boolean {
    return this.#gauge.isFull
  }

  /** The result of `run`. Without room: waits for it, rejects with QUEUE_FULL, or drops, as `overflow` says. */
  push(item: Item, options: PushOptions = {}): Promise<Result> {
    return this.#checked(item, options, (entry) => {
      this.#enter(entry)
      this.#afterwards()
      return entry.promise
    })
  }

  /** As `push`, but undefined at once while the queue is full; `ready()` tells when to try again. Drops nothing. */
  tryPush(item: Item, options: PushOptions = {}): Promise<Result> | undefined {
    return this.#checked(item, options, (entry) => {
      const accepted = this.#hasRoom(entry)
      if (accepted) this.#accept(entry)
      else entry.unwatch()
      this.#afterwards()
      return accepted ? entry.promise : undefined
    })
  }

  /** Resolves at once, or when the queue is no longer full. Others may be quicker: go on with `tryPush`. */
  ready(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.#closed) return quiet(Promise.reject(this.#refusal()))
    if (!this.isFull) return Promise.resolve()
    return this.#untilReady.wait(options.signal)
  }

  /** Resolves when nothing waits and nothing runs. */
  idle(): Promise<void> {
    return this.#isIdle ? Promise.resolve() : this.#untilIdle.wait()
  }

  /** Returns a function that ends it. */
  on<E extends keyof LocalQueueEvents<Item>>(
    event: E,
    listener: (event: LocalQueueEvents<Item>[E]) => void,
  ): () => void {
    oneOf(event, eventNames, 'event')
    return this.#listeners.on(event, listener)
  }

  /**
   * Takes nothing more, and resolves when every promise is settled: with the result of what still ran, with
   * CLOSED for the rest. What runs on after `grace`, deaf to its signal, is left alone; nobody hears its
   * result. May be called again to hasten an earlier close.
   */
  async close(options: LocalCloseOptions = {}): Promise<void> {
    const { drain, grace } = compileClose(options)
    this.#closed = true
    this.#untilReady.reject(this.#refusal())
    if (!drain) this.#rejectWaiting()
    if (grace === 0) return this.#giveUp(grace)
    const cancel = this.#options.clock.after(grace, () => this.#giveUp(grace))
    await this.idle()
    cancel()
  }

  /** Bad options, a faulty `size` and a closed queue reject, as all else does; nothing is thrown. */
  #checked<T>(item: Item, options: PushOptions, then: (entry: Entry<Item, Result>) => T): T | Promise<never> {
    try {
      if (this.#closed) throw this.#refusal()
      const { priority, signal } = compilePush(options)
      signal?.throwIfAborted()
      const entry = new Entry<Item, Result>(item, measure(this.#options.size, item, 'size()'), priority)
      entry.watch(signal, (reason) => this.#abort(entry, reason))
      return then(entry)
    } catch (error) {
      return quiet(Promise.reject(error))
    }
  }

  #enter(entry: Entry<Item, Result>): void {
    switch (this.#options.overflow) {
      case 'wait':
        this.#outside.add(entry)
        return
      case 'reject':
        if (this.#hasRoom(entry)) return this.#accept(entry)
        break
      case 'dropOldest':
        if (this.#makeRoom(entry)) return this.#accept(entry)
    }
    entry.reject(this.#fullError())
  }

  #hasRoom(entry: Entry<Item, Result>): boolean {
    if (!this.#gauge.isFull && this.#gauge.fits(entry.size)) return true
    this.#gauge.refuse(entry.size)
    return false
  }

  /** Drops the oldest of the least urgent, if that helps: not what runs, and nothing that is more urgent. */
  #makeRoom(entry: Entry<Item, Result>): boolean {
    const victims: Entry<Item, Result>[] = []
    let freed = 0
    for (const victim of this.#waiting.fromLeastUrgent()) {
      if (this.#gauge.fits(entry.size, freed) || victim.priority > entry.priority) break
      victims.push(victim)
      freed += victim.size
    }
    if (!this.#gauge.fits(entry.size, freed)) {
      this.#gauge.refuse(entry.size)
      return false
    }
    for (const victim of victims) this.#drop(victim)
    return true
  }

  #drop(victim: Entry<Item, Result>): void {
    this.#waiting.remove(victim)
    this.#gauge.remove(victim.size)
    const text = `queue '${this.name}' was full and dropped this item for a newer one; raise highWaterMark, or use overflow 'wait'`
    victim.reject(new MillraceError('DROPPED', text, { limit: this.#gauge.high }))
    this.#listeners.emit('dropped', { item: victim.item, priority: victim.priority })
  }

  #accept(entry: Entry<Item, Result>): void {
    if (this.#gauge.size === 0) this.#pace.begin(this.#options.clock.monotonic())
    this.#gauge.add(entry.size)
    this.#slots.add(entry, () => this.#run(entry))
    this.#gate?.look()
  }

  async #run(entry: Entry<Item, Result>): Promise<void> {
    this.#running.add(entry)
    this.#gate?.started()
    try {
      entry.resolve(await this.#options.run(entry.item, { signal: entry.signal }))
    } catch (error) {
      if (entry.reject(error)) this.#listeners.emit('failed', { item: entry.item, error })
    }
    this.#leave(entry)
  }

  #abort(entry: Entry<Item, Result>, reason: unknown): void {
    if (this.#running.has(entry)) return entry.abort(reason)
    entry.reject(reason)
    this.#leave(entry)
  }

  /** The one way out, for whatever was outside, waiting or running. */
  #leave(entry: Entry<Item, Result>): void {
    if (this.#running.delete(entry)) {
      this.#gauge.remove(entry.size)
      this.#pace.released(entry.size, this.#options.clock.monotonic())
    } else if (this.#waiting.remove(entry)) {
      this.#gauge.remove(entry.size)
      this.#gate?.look()
    } else if (!this.#outside.remove(entry)) return
    this.#afterwards()
  }

  /** What may follow from any change. Listeners come last, when all is in its place: they may push, or close. */
  #afterwards(): void {
    this.#admit()
    this.#gauge.look()
    if (this.#isIdle !== this.#wasIdle) {
      this.#wasIdle = this.#isIdle
      if (this.#isIdle) this.#becameIdle()
    }
    this.#listeners.tell()
  }

  /** Lets in who stands outside. Nobody overtakes one who does not fit yet, or large items would never get in. */
  #admit(): void {
    for (let entry = this.#outside.first(); entry !== undefined; entry = this.#outside.first()) {
      if (!this.#gauge.fits(entry.size)) return this.#gauge.refuse(entry.size)
      this.#outside.remove(entry)
      this.#accept(entry)
    }
  }

  #becameIdle(): void {
    this.#untilIdle.resolve()
    this.#listeners.emit('idle', { size: 0 })
  }

  get #isIdle(): boolean {
    return this.#outside.size + this.#waiting.size + this.#running.size === 0
  }

  #crossed(full: boolean): void {
    if (!full) this.#untilReady.resolve()
    this.#listeners.emit(full ? 'full' : 'ready', { size: this.#gauge.size })
  }

  #rejectWaiting(): void {
    const reason = new MillraceError('CLOSED', `queue '${this.name}' was closed before this item ran`)
    // All at once, or some would start, or be let in, for those that leave.
    for (let entry = this.#outside.take(); entry !== undefined; entry = this.#outside.take()) {
      entry.reject(reason)
    }
    for (let entry = this.#waiting.take(); entry !== undefined; entry = this.#waiting.take()) {
      this.#gauge.remove(entry.size)
      entry.reject(reason)
    }
    this.#gate?.look()
    this.#afterwards()
  }

  #giveUp(grace: number): void {
    this.#rejectWaiting()
    const text = `queue '${this.name}' was closed, and this item still ran when the grace of ${grace} ms ended`
    const reason = new MillraceError('CLOSED', text, { limit: grace })
    for (const entry of [...this.#running]) {
      entry.reject(reason)
      entry.abort(reason)
      this.#leave(entry)
    }
  }

  #refusal(): MillraceError {
    return new MillraceError('CLOSED', `queue '${this.name}' is closed and takes nothing more`)
  }

  #fullError(): QueueFullError {
    const { size, high, excess } = this.#gauge
    return new QueueFullError({
      queue: this.name,
      depth: size,
      limit: high,
      retryAfter: this.#pace.estimate(excess),
    })
  }
}

const eventNames = ['full', 'ready', 'idle', 'dropped', 'failed'] as const
