import type { Clock } from '../core/clock.js'

/** Waits that end early when there is news. News that comes while nobody waits ends the next wait at once. */
export class Wakes {
  readonly #clock: Clock
  #news = false
  #end: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  wake(): void {
    this.#news = true
    this.#end?.()
  }

  /** Resolves at news from now on, or after `ms`. */
  fromNow(ms: number): Promise<void> {
    this.#news = false
    return this.next(ms)
  }

  /** Resolves at the next news, or after `ms`. */
  async next(ms: number): Promise<void> {
    if (!this.#news) {
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(ms, resolve)
        this.#end = () => {
          cancel()
          resolve()
        }
      })
      this.#end = undefined
    }
    this.#news = false
  }
}
