import { bounds } from '../core/bounds.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { integer, name, noUnknown } from '../core/options.js'
import { compileRate, type RateOptions } from '../core/traffic/options.js'
import { newToken } from '../system/ids.js'
import type { Runtime } from './runtime.js'

export interface AcquireOptions {
  /** Permits that this takes. @default 1 */
  readonly weight?: number
  readonly signal?: AbortSignal
  /** How long to wait at most. @default for ever */
  readonly timeout?: Duration
}

interface Waiter {
  readonly weight: number
  isGone: boolean
  readonly grant: () => void
  readonly refuse: (error: unknown) => void
}

/** How often the store is asked at least, and at most when signals come in a row. */
const lookEveryMs = 1_000
const lookAtMostEveryMs = 100

/**
 * A rate limit by name, for code outside of jobs; definitions with `limiter: name` share it, over all
 * processes. Those who wait in one process are served in the order in which they came.
 */
export class Limiter {
  readonly name: string
  readonly #runtime: Runtime
  readonly #waiters: Waiter[] = []
  /** The first of those who wait here, to the store. */
  readonly #token = newToken()
  #serving = false
  #closed = false
  #wake: (() => void) | undefined

  constructor(runtime: Runtime, limiter: string) {
    this.name = name(limiter, 'limiter')
    this.#runtime = runtime
  }

  /** Resolves when the permits are taken. They come back by time alone. */
  async acquire(options: AcquireOptions = {}): Promise<void> {
    noUnknown(options, ['weight', 'signal', 'timeout'], 'acquire')
    const { signal } = options
    const weight = integer(options.weight ?? 1, 'weight', 1, bounds.limit)
    const timeout = options.timeout === undefined ? undefined : milliseconds(options.timeout, 'timeout')
    signal?.throwIfAborted()
    await this.#runtime.ready()
    signal?.throwIfAborted()
    await this.#wait(weight, signal, timeout)
  }

  /** Takes the permits if they are there now, and says whether it has. */
  async tryAcquire(options: { readonly weight?: number } = {}): Promise<boolean> {
    noUnknown(options, ['weight'], 'tryAcquire')
    const weight = integer(options.weight ?? 1, 'weight', 1, bounds.limit)
    await this.#runtime.ready()
    if (this.#waiters.length > 0) return false
    const { granted, most } = await this.#ask(weight)
    if (!granted && weight > most) throw this.#tooHeavy(weight, most)
    return granted
  }

  /** Changes the rate for all processes, at once and until it is changed again. Null goes back to the code's. */
  async set(rate: RateOptions | null): Promise<void> {
    const limit = rate === null ? null : { rate: compileRate(rate, 'limiter') }
    await this.#runtime.ready()
    const gate = { of: 'limiter', name: this.name } as const
    await this.#runtime.store.configure({ gate, change: { limit }, declared: false })
    this.#wake?.()
  }

  close(): void {
    this.#closed = true
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(this.#isClosed())
    this.#wake?.()
  }

  #wait(weight: number, signal: AbortSignal | undefined, timeout: number | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(this.#isClosed())
      const { clock } = this.#runtime
      const settle = (done: () => void) => {
        waiter.isGone = true
        signal?.removeEventListener('abort', aborted)
        cancelTimeout?.()
        done()
      }
      const waiter: Waiter = {
        weight,
        isGone: false,
        grant: () => settle(resolve),
        refuse: (error) => settle(() => reject(error)),
      }
      const aborted = () => this.#leave(waiter, signal?.reason)
      const cancelTimeout =
        timeout === undefined
          ? undefined
          : clock.after(timeout, () => this.#leave(waiter, tooLong(this.name, timeout)))
      signal?.addEventListener('abort', aborted, { once: true })
      this.#waiters.push(waiter)
      if (!this.#serving) void this.#serve()
    })
  }

  #leave(waiter: Waiter, reason: unknown): void {
    const index = this.#waiters.indexOf(waiter)
    if (index >= 0) this.#waiters.splice(index, 1)
    waiter.refuse(reason)
    // The one behind it may need less.
    if (index === 0) this.#wake?.()
  }

  /** One after the other. A store that does not answer is asked again by the next. */
  async #serve(): Promise<void> {
    this.#serving = true
    for (let waiter = this.#waiters[0]; waiter !== undefined; waiter = this.#waiters[0]) {
      try {
        const { granted, retryIn, most } = await this.#ask(waiter.weight, this.#token)
        if (granted) this.#grant(waiter)
        this.#refuseHeavier(most)
        if (!granted && this.#waiters[0] === waiter) await this.#pause(retryIn)
      } catch (error) {
        this.#leave(waiter, error)
      }
    }
    this.#serving = false
  }

  /** What the setting of this moment says; it may have changed since the code declared one. */
  async #ask(permits: number, waiter?: string): Promise<{ granted: boolean; retryIn: number; most: number }> {
    const { granted, retryIn, most } = await this.#runtime.store.acquire({
      limiter: this.name,
      permits,
      waiter,
    })
    if (most === undefined) throw this.#noRate()
    return { granted, retryIn, most }
  }

  #grant(waiter: Waiter): void {
    if (waiter.isGone) return
    this.#waiters.shift()
    waiter.grant()
  }

  /** Who asks for more than there ever will be must not keep those behind it waiting. */
  #refuseHeavier(most: number): void {
    for (const waiter of this.#waiters.filter(({ weight }) => weight > most))
      this.#leave(waiter, this.#tooHeavy(waiter.weight, most))
  }

  /** Until it is worth asking again, or the store tells of a change: it may be the rate. */
  #pause(ms: number): Promise<void> {
    const { clock, store } = this.#runtime
    return new Promise((resolve) => {
      const since = clock.monotonic()
      let hasHeard = ms <= lookAtMostEveryMs
      const done = () => {
        cancel()
        unsubscribe()
        this.#wake = undefined
        resolve()
      }
      const unsubscribe = store.subscribe(({ type }) => {
        if (hasHeard || (type !== 'changed' && type !== 'ready')) return
        hasHeard = true
        cancel()
        cancel = clock.after(Math.max(1, since + lookAtMostEveryMs - clock.monotonic()), done)
      })
      let cancel = clock.after(Math.max(1, Math.min(ms, lookEveryMs)), done)
      this.#wake = done
    })
  }

  #tooHeavy(weight: number, most: number): MillraceError {
    const sentence = `limiter '${this.name}' never gives more than ${most} permits at once, and weight is ${weight}`
    const wayOut = `ask for less, or raise its rate or burst with mill.limiter('${this.name}').set(…)`
    return new MillraceError('INVALID_OPTION', `${sentence}; ${wayOut}`, {
      field: 'weight',
      value: weight,
      limit: most,
    })
  }

  #noRate(): MillraceError {
    return new MillraceError(
      'INVALID_OPTION',
      `limiter '${this.name}' has no rate yet; give it one: mill.limiter('${this.name}', { max: 100, per: '1s' })`,
      { field: 'limiter', value: this.name },
    )
  }

  #isClosed(): MillraceError {
    return new MillraceError('CLOSED', `limiter '${this.name}' is closed`)
  }
}

function tooLong(limiter: string, timeout: number): MillraceError {
  return new MillraceError('WAIT_TIMEOUT', `limiter '${limiter}' gave no permit within ${timeout} ms`, {
    limit: timeout,
  })
}
