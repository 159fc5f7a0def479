import type { Clock } from '../core/clock.js'

interface Timer {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

/** Turns of the event loop that are let pass after each timer, for what it set in motion. */
const turns = 12

/**
 * Time that moves only when told to. Each instance has its own, so tests run side by side. `advance` fires
 * timers in the order of their times and lets the work that each one starts settle before the next.
 */
export class VirtualClock implements Clock {
  #now: number
  #jumped = 0
  readonly #start: number
  #timers: Timer[] = []
  #order = 0

  /** @param start epoch milliseconds, or a date such as '2030-01-01T00:00:00Z' */
  constructor(start: number | string | Date = '2030-01-01T00:00:00Z') {
    this.#start = new Date(start).getTime()
    this.#now = this.#start
  }

  now(): number {
    return Math.floor(this.#now + this.#jumped)
  }

  monotonic(): number {
    return this.#now - this.#start
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, ms), order: this.#order++, fn }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  /** Sets the wall clock forward (or back) while no time passes, as a time server or an operator would. */
  jump(ms: number): void {
    this.#jumped += ms
  }

  /** Moves time forward by `ms`, firing what falls due on the way. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await settle()
    for (let timer = this.#next(until); timer !== undefined; timer = this.#next(until)) {
      this.#now = Math.max(this.#now, timer.at)
      timer.fn()
      await settle()
    }
    this.#now = Math.max(this.#now, until)
  }

  #next(until: number): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) {
      if (timer.at > until) continue
      if (first === undefined || timer.at < first.at || (timer.at === first.at && timer.order < first.order))
        first = timer
    }
    if (first !== undefined) this.#timers = this.#timers.filter((timer) => timer !== first)
    return first
  }
}

/** Lets pending promises and turns of the event loop run. */
async function settle(): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}
