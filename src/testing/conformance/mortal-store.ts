import type { Store } from '../../core/store.js'

/**
 * The store of a process that can be killed between any two calls, in this process: from then on no call is made
 * and none is answered.
 */
export class MortalStore {
  readonly store: Store
  #callsLeft = Number.POSITIVE_INFINITY
  /** The last call is carried out, and its answer never comes. */
  #dieAfter = false
  #dead = false
  #inFlight = 0

  constructor(inner: Store) {
    this.store = new Proxy(inner, {
      get: (target, property) => {
        const member = Reflect.get(target, property, target) as unknown
        if (typeof member !== 'function' || property === 'subscribe' || property === 'open')
          return typeof member === 'function' ? member.bind(target) : member
        return (...args: unknown[]) => this.#call(() => member.apply(target, args) as Promise<unknown>)
      },
    })
  }

  get dead(): boolean {
    return this.#dead
  }

  /** After so many calls. */
  kill(calls: number, dieAfter: boolean): void {
    this.#callsLeft = calls
    this.#dieAfter = dieAfter
  }

  /** Until its calls are answered, and what follows from them too: a server takes real time, whatever the clock says. */
  async quiet(): Promise<void> {
    for (let turns = 0; turns < quietTurns; turns++) {
      if (this.#inFlight > 0) turns = 0
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  async #call(call: () => Promise<unknown>): Promise<unknown> {
    if (this.#dead) return never
    this.#inFlight++
    const answer = await this.#answered(call).finally(() => this.#inFlight--)
    return answer === lost ? never : answer
  }

  async #answered(call: () => Promise<unknown>): Promise<unknown> {
    if (this.#callsLeft-- <= 0) {
      this.#dead = true
      if (this.#dieAfter) await call().catch(() => {})
      return lost
    }
    const answer = await call()
    return this.#dead ? lost : answer
  }
}

/** Turns without a call. */
const quietTurns = 5

const lost = Symbol('lost')
const never = new Promise<never>(() => {})
