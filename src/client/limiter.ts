import { bounds } from '../core/bounds.js'
import type { Clock } from '../core/clock.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { compileRate, type RateOptions } from '../core/flow/options.js'
import type { Rate } from '../core/flow/rate.js'
import { integer, name, noUnknown } from '../core/options.js'
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

/**
 * A rate limit by name, for code outside of jobs; definitions with `limiter: name` share it, over all
 * processes. Those who wait in one process are served in the order in which they came.
 */
export class Limiter {
  readonly name: string
  readonly #runtime: Runtime
  readonly #rate: Rate | undefined
  #declared: Promise<void> | undefined
  readonly #waiters: Waiter[] = []
  #serving = false
  #wake: (() => void) | undefined

  constructor(runtime: Runtime, limiter: string, rate: RateOptions | undefined) {
    this.name = name(limiter, 'limiter')
    this.#runtime = runtime
    this.#rate = rate === undefined ? undefined : compileRate(rate, 'limiter')
  }

  /** Resolves when the permits are taken. They come back by time alone. */
  async acquire(options: AcquireOptions = {}): Promise<void> {
    noUnknown(options, ['weight', 'signal', 'timeout'], 'acquire')
    const { signal } = options
    const weight = this.#weight(options.weight)
    const timeout = options.timeout === undefined ? undefined : milliseconds(options.timeout, 'timeout')
    signal?.throwIfAborted()
    await this.#ready()
    signal?.throwIfAborted()
    await this.#wait(weight, signal, timeout)
  }

  /** Takes the permits if they are there now, and says whether it has. */
  async tryAcquire(options: { readonly weight?: number } = {}): Promise<boolean> {
    noUnknown(options, ['weight'], 'tryAcquire')
    const permits = this.#weight(options.weight)
    await this.#ready()
    if (this.#waiters.length > 0) return false
    return (await this.#runtime.store.acquire({ limiter: this.name, permits })).granted
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
    for (const waiter of this.#waiters.splice(0))
      waiter.refuse(new MillraceError('CLOSED', `limiter '${this.name}' is closed`))
    this.#wake?.()
  }

  #weight(weight = 1): number {
    return integer(weight, 'weight', 1, this.#rate?.burst ?? bounds.limit)
  }

  #ready(): Promise<void> {
    this.#declared ??= this.#declare().catch((error: unknown) => {
      this.#declared = undefined
      throw error
    })
    return this.#declared
  }

  async #declare(): Promise<void> {
    await this.#runtime.ready()
    const { store } = this.#runtime
    const gate = { of: 'limiter', name: this.name } as const
    const { gates } = await store.gates({ of: 'limiter', names: [this.name], limit: 1 })
    const known = gates[0]
    if (this.#rate === undefined) {
      if (known !== undefined && Object.keys(known.declared).length + Object.keys(known.chosen).length > 0)
        return
      throw new MillraceError(
        'INVALID_OPTION',
        `limiter '${this.name}' has no rate yet; give it one: mill.limiter('${this.name}', { max: 100, per: '1s' })`,
        { field: 'limiter', value: this.name },
      )
    }
    const { rate } = known?.declared.limit ?? {}
    const same =
      rate?.max === this.#rate.max && rate.per === this.#rate.per && rate.burst === this.#rate.burst
    if (!same) await store.configure({ gate, change: { limit: { rate: this.#rate } }, declared: true })
  }

  #wait(weight: number, signal: AbortSignal | undefined, timeout: number | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
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

  /** One after the other. A store that does not answer is asked again. */
  async #serve(): Promise<void> {
    this.#serving = true
    for (let waiter = this.#waiters[0]; waiter !== undefined; waiter = this.#waiters[0]) {
      try {
        const { granted, retryIn } = await this.#runtime.store.acquire({
          limiter: this.name,
          permits: waiter.weight,
        })
        if (!granted) await this.#pause(Math.max(1, retryIn))
        else if (!waiter.isGone) {
          this.#waiters.shift()
          waiter.grant()
        }
      } catch (error) {
        if (this.#waiters[0] === waiter) this.#waiters.shift()
        waiter.refuse(error)
      }
    }
    this.#serving = false
  }

  #pause(ms: number): Promise<void> {
    const { clock }: { clock: Clock } = this.#runtime
    return new Promise((resolve) => {
      const done = () => {
        cancel()
        this.#wake = undefined
        resolve()
      }
      const cancel = clock.after(ms, done)
      this.#wake = done
    })
  }
}

function tooLong(limiter: string, timeout: number): MillraceError {
  return new MillraceError('WAIT_TIMEOUT', `limiter '${limiter}' gave no permit within ${timeout} ms`, {
    limit: timeout,
  })
}
