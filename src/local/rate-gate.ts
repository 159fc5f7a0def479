import type { Clock } from '../core/clock.js'

export interface CompiledRate {
  readonly max: number
  readonly per: number
}

/** The part of p-queue that a gate holds. */
interface Slots {
  pause(): void
  start(): unknown
}

/**
 * At most `max` starts in any stretch of `per` milliseconds, wherever it begins. p-queue's strict mode nearly
 * does this, but reads the wall clock in whole milliseconds: a start late in its millisecond leaves the window
 * early, and a step of the wall clock opens or blocks it. This gate keeps exact starts on the monotonic clock
 * and lets p-queue pause in between.
 */
export class RateGate {
  readonly #rate: CompiledRate
  readonly #clock: Clock
  readonly #slots: Slots
  readonly #anyWaiting: () => boolean
  /** The last `max` starts, in a ring. */
  readonly #starts: number[] = []
  #oldest = 0
  #cancel: (() => void) | undefined

  constructor(rate: CompiledRate, clock: Clock, slots: Slots, anyWaiting: () => boolean) {
    this.#rate = rate
    this.#clock = clock
    this.#slots = slots
    this.#anyWaiting = anyWaiting
  }

  started(): void {
    this.#starts[this.#oldest] = this.#clock.monotonic()
    this.#oldest = (this.#oldest + 1) % this.#rate.max
    this.look()
  }

  /** Called when something started, joined or left the line. */
  look(): void {
    const wait = this.#wait()
    // A timer for nobody would keep the process alive.
    if (wait <= 0 || !this.#anyWaiting()) this.#sleep()
    else this.#wakeIn(wait)
    if (wait > 0) this.#slots.pause()
    else this.#slots.start() // last, because what it starts looks again
  }

  #wait(): number {
    const oldest = this.#starts[this.#oldest]
    return oldest === undefined ? 0 : oldest + this.#rate.per - this.#clock.monotonic()
  }

  /** Timers may be a fraction of a millisecond early, so the wake looks again. */
  #wakeIn(wait: number): void {
    this.#cancel ??= this.#clock.after(Math.ceil(wait), () => {
      this.#cancel = undefined
      this.look()
    })
  }

  #sleep(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }
}
