import type { Clock } from '../core/clock.js'

interface Timer {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

/** Turns of the event loop that are let pass after each timer, for what it set in motion. */
const turns = 12
/** Real milliseconds without an answer after which time goes on: what is awaited may itself wait for that. */
const patience = 1_000
/** Answers after which it goes on in any case. */
const mostAnswers = 1_000

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
  readonly #pending = new Set<Promise<void>>()

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

  /**
   * `advance` moves time no further before this is settled: a call to a server, which takes real time and none of
   * this. One that is not settled for long, while no other is, does not hold it up.
   */
  waitFor(call: Promise<unknown>): void {
    const over: Promise<void> = call.then(nothing, nothing).then(() => void this.#pending.delete(over))
    this.#pending.add(over)
  }

  /** Moves time forward by `ms`, firing what falls due on the way. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await this.#settle()
    for (let timer = this.#next(until); timer !== undefined; timer = this.#next(until)) {
      this.#now = Math.max(this.#now, timer.at)
      timer.fn()
      await this.#settle()
    }
    this.#now = Math.max(this.#now, until)
  }

  /** Lets what was set in motion come to rest. */
  async #settle(): Promise<void> {
    await turnsPass()
    for (let answers = 0; this.#pending.size > 0 && answers < mostAnswers; answers++) {
      if (!(await isSettled(Promise.race(this.#pending)))) this.#pending.clear()
      await turnsPass()
    }
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
async function turnsPass(): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

/** Whether it is before patience is over. */
async function isSettled(promise: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), patience)
  })
  const settled = await Promise.race([promise.then(() => true), tooLong])
  clearTimeout(timer)
  return settled
}

function nothing(): void {}
