import type { NewJob } from '../core/job.js'
import type { Signal } from '../core/store.js'
import type { Runtime } from './runtime.js'

/** How often a full queue is looked at when no signal comes. */
const lookEveryMs = 250
/** Callers that go on together once there is room. */
const together = 100

/**
 * Callers that wait for room in a full queue. One goes first; when it is let in, others follow. Lanes have limits
 * of their own, so each has a line of its own: none waits behind one that another limit keeps out.
 */
export class Rooms {
  readonly #runtime: Runtime
  readonly #lines = new Map<string, RoomLine>()
  #unsubscribe: (() => void) | undefined
  #cancelLook: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** A place in the line of a queue. From now on no sign of room passes by; `leave` ends it. */
  enter({ queue, lane }: NewJob): Place {
    this.#start()
    const key = `${lane} ${queue}`
    let line = this.#lines.get(key)
    if (line === undefined) {
      line = new RoomLine(queue, () => this.#left(key))
      this.#lines.set(key, line)
    }
    return line.enter()
  }

  /** All try once more: the store is closed and says so. */
  close(): void {
    this.#stop()
    for (const line of this.#lines.values()) line.sign(Number.POSITIVE_INFINITY)
  }

  /** Nobody waits there any more. */
  #left(key: string): void {
    this.#lines.delete(key)
    if (this.#lines.size === 0) this.#stop()
  }

  #start(): void {
    if (this.#unsubscribe !== undefined) return
    this.#unsubscribe = this.#runtime.store.subscribe((signal) => this.#heard(signal))
    this.#look()
  }

  #stop(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#cancelLook?.()
  }

  #heard(signal: Signal): void {
    if (signal.type !== 'claimed' && signal.type !== 'changed') return
    const queues = signal.type === 'claimed' ? new Set(signal.jobs.map((job) => job.queue)) : undefined
    for (const line of this.#lines.values()) if (queues?.has(line.queue) !== false) line.sign(1)
  }

  #look(): void {
    this.#cancelLook = this.#runtime.clock.after(lookEveryMs, () => {
      for (const line of this.#lines.values()) line.sign(1)
      this.#look()
    })
  }
}

/** Those who wait for one lane of a queue, in the order in which they came. */
class RoomLine {
  readonly queue: string
  /** Signs of room so far. */
  signs = 0
  readonly #places = new Set<Place>()
  readonly #left: () => void

  constructor(queue: string, left: () => void) {
    this.queue = queue
    this.#left = left
  }

  enter(): Place {
    const place = new Place(this)
    this.#places.add(place)
    return place
  }

  leave(place: Place): void {
    if (!this.#places.delete(place)) return
    if (this.#places.size === 0) this.#left()
  }

  /** There may be room: the first ones try, after those who are trying now, or once more. */
  sign(count: number): void {
    this.signs++
    this.wake(count, this.signs)
  }

  /** The first ones try, unless they have since this sign. */
  wake(count: number, sign: number): void {
    let woken = 0
    for (const place of this.#places) {
      if (woken++ === count) return
      place.wake(sign)
    }
  }
}

/** A caller in line. It stays there while it tries, so that a sign that comes meanwhile makes it try again. */
export class Place {
  readonly #line: RoomLine
  /** The last sign before it tried, and the last that it was told of. */
  #tried = 0
  #told = 0
  #go: (() => void) | undefined

  constructor(line: RoomLine) {
    this.#line = line
  }

  /** It is about to ask the store. */
  tries(): void {
    this.#tried = this.#line.signs
  }

  /** It was let in: others may be too. */
  opened(): void {
    this.#line.wake(together + 1, this.#tried)
  }

  /** Resolves when it is worth another try; rejects with the signal's reason. */
  async room(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    if (this.#told > this.#tried) return
    await new Promise<void>((resolve, reject) => {
      const aborted = () => {
        this.#go = undefined
        reject(signal?.reason)
      }
      this.#go = () => {
        this.#go = undefined
        signal?.removeEventListener('abort', aborted)
        resolve()
      }
      signal?.addEventListener('abort', aborted, { once: true })
    })
  }

  /** Who waits goes, whatever it tried: an earlier try may have come before the room. */
  wake(sign: number): void {
    this.#told = Math.max(this.#told, sign)
    this.#go?.()
  }

  /** What it was told and made no use of, the next one is told. */
  leave(): void {
    this.#line.leave(this)
    if (this.#told > this.#tried) this.#line.wake(1, this.#told)
  }
}
