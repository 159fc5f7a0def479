import { type Duration, milliseconds } from '../core/duration.js'
import { isMillraceError, MillraceError } from '../core/errors.js'
import type { GuardRequest, GuardResult } from '../core/guard.js'
import { defaultTtl } from '../core/idempotency.js'
import { invalid, noUnknown } from '../core/options.js'
import { belonging } from '../core/traffic/options.js'
import { newToken } from '../system/ids.js'
import type { Runtime } from './runtime.js'

export interface IdempotentOptions {
  /** How long the result is kept. Must outlast every retry of the caller. @default '7d' */
  readonly ttl?: Duration
  /** How long the key stays taken when this process is lost; renewed while the work goes on. @default '30s' */
  readonly lease?: Duration
  /** How long to wait for another that works under the key, before IDEMPOTENCY_BUSY. @default '30s' */
  readonly wait?: Duration
  /** Ends that wait. */
  readonly signal?: AbortSignal
}

/** What the work gets. */
export interface IdempotentContext {
  /** For providers that take one. */
  readonly idempotencyKey: string
  /** Aborts when the key was lost: the store could not be reached for as long as the lease. */
  readonly signal: AbortSignal
}

export interface BeginOptions {
  /** How long the result is kept. Must outlast every retry of the caller. @default '7d' */
  readonly ttl?: Duration
  /** How long the key stays taken unless it is renewed. @default '1m' */
  readonly lease?: Duration
}

/** `begun`: do it, then say how it went. `done`: another has, and this came of it. `busy`: another is at it. */
export type Beginning<R> =
  | Begun<R>
  | { readonly status: 'done'; readonly result: R }
  | {
      readonly status: 'busy'
      /** Milliseconds after which another look makes sense. */
      readonly retryIn: number
    }

export interface Begun<R> {
  readonly status: 'begun'
  /** Stores the result. Repeated, it changes nothing. Rejects with LEASE_LOST when another has the key by now. */
  complete(result: R): Promise<void>
  /** Lets go of the key, so that another may try. */
  fail(): Promise<void>
  /** Goes on for another lease. Rejects with LEASE_LOST when another has the key by now. */
  renew(): Promise<void>
}

const defaults = { lease: '30s', handLease: '1m', wait: '30s' } as const
const shortestLease = 100
/** How often the store is asked at least, and at most when signals come in a row. */
const lookEveryMs = 1_000
const lookAtMostEveryMs = 50
const completeTries = 3

/** Work that is done once per key, also outside of jobs and over all processes. */
export class Idempotency {
  readonly #runtime: Runtime

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** For hand-made use; `mill.idempotent` does all of it. */
  async begin<R = unknown>(key: string | number, options: BeginOptions = {}): Promise<Beginning<R>> {
    noUnknown(options, ['ttl', 'lease'], 'begin')
    const guard = this.#guard(key, options.ttl, options.lease ?? defaults.handLease)
    await this.#runtime.ready()
    const { status, result, retryIn } = await guard.begin()
    if (status === 'done') return { status, result: guard.decode(result) as R }
    if (status === 'busy') return { status, retryIn: retryIn ?? lookEveryMs }
    return {
      status: 'begun',
      complete: (value) => guard.complete(value),
      fail: () => guard.fail(),
      renew: () => guard.renew(),
    }
  }

  async run<R>(
    key: string | number,
    work: (context: IdempotentContext) => R | PromiseLike<R>,
    options: IdempotentOptions,
  ): Promise<R> {
    noUnknown(options, ['ttl', 'lease', 'wait', 'signal'], 'idempotent')
    if (typeof work !== 'function') throw invalid('fn', work, 'a function that does the work')
    const guard = this.#guard(key, options.ttl, options.lease ?? defaults.lease)
    const wait = milliseconds(options.wait ?? defaults.wait, 'wait')
    options.signal?.throwIfAborted()
    await this.#runtime.ready()
    const { status, result } = await this.#beginInTime(guard, wait, options.signal)
    return status === 'done' ? (guard.decode(result) as R) : guard.work(work)
  }

  #guard(key: string | number, ttl: Duration | undefined, lease: Duration): Guard {
    const leaseMs = milliseconds(lease, 'lease')
    if (leaseMs < shortestLease) throw invalid('lease', lease, `at least ${shortestLease} ms`, shortestLease)
    const retain = milliseconds(ttl ?? defaultTtl, 'ttl')
    return new Guard(this.#runtime, belonging(key, 'key'), retain, leaseMs)
  }

  /** Looks again and again; a signal of the store only makes it look sooner. */
  async #beginInTime(guard: Guard, wait: number, signal: AbortSignal | undefined): Promise<GuardResult> {
    const { clock } = this.#runtime
    const until = clock.monotonic() + wait
    for (;;) {
      const found = await guard.begin()
      if (found.status !== 'busy') return found
      const left = until - clock.monotonic()
      if (left <= 0) throw busyFor(guard.key, wait)
      await this.#pause(Math.min(left, found.retryIn ?? lookEveryMs, lookEveryMs), signal)
    }
  }

  #pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const { clock, store } = this.#runtime
    return new Promise((resolve, reject) => {
      const since = clock.monotonic()
      let hasHeard = ms <= lookAtMostEveryMs
      const stop = () => {
        cancel()
        unsubscribe()
        signal?.removeEventListener('abort', abort)
      }
      const look = () => {
        stop()
        resolve()
      }
      const abort = () => {
        stop()
        reject(signal?.reason)
      }
      const unsubscribe = store.subscribe(({ type }) => {
        if (hasHeard || (type !== 'changed' && type !== 'settled')) return
        hasHeard = true
        cancel()
        cancel = clock.after(Math.max(1, since + lookAtMostEveryMs - clock.monotonic()), look)
      })
      let cancel = clock.after(Math.max(1, ms), look)
      if (signal?.aborted) return abort()
      signal?.addEventListener('abort', abort, { once: true })
    })
  }
}

/** One caller's hold on one key. */
class Guard {
  readonly key: string
  readonly #runtime: Runtime
  /** No definition has an empty name, so this is no job's key. */
  readonly #storedKey: string
  readonly #holder = newToken()
  readonly #retain: number
  readonly #lease: number

  constructor(runtime: Runtime, key: string, retain: number, lease: number) {
    this.key = key
    this.#runtime = runtime
    this.#storedKey = `:${key}`
    this.#retain = retain
    this.#lease = lease
  }

  begin(): Promise<GuardResult> {
    return this.#ask({ do: 'begin', lease: this.#lease })
  }

  async renew(): Promise<void> {
    const { status } = await this.begin()
    if (status !== 'begun') throw this.#lost()
  }

  async complete(value: unknown): Promise<void> {
    const { codec, limits } = this.#runtime
    const result = value === undefined ? undefined : codec.encode(value, 'result', limits.result)
    await this.#store(result)
  }

  async fail(): Promise<void> {
    await this.#ask({ do: 'fail' })
  }

  decode(result: string | undefined): unknown {
    return result === undefined ? undefined : this.#runtime.codec.decode(result)
  }

  /** Does the work, keeps the key meanwhile, and stores what came of it. */
  async work<R>(work: (context: IdempotentContext) => R | PromiseLike<R>): Promise<R> {
    const keeper = new Keeper(
      this.#runtime,
      this.#lease,
      () => this.begin(),
      () => this.#lost(),
    )
    let result: R
    let text: string | undefined
    try {
      result = await work({ idempotencyKey: this.key, signal: keeper.signal })
      const { codec, limits } = this.#runtime
      text = result === undefined ? undefined : codec.encode(result, 'result', limits.result)
    } catch (error) {
      await keeper.stop()
      await this.#letGo()
      throw error
    }
    // Kept until the result is stored: another must not begin in between.
    try {
      await this.#store(text)
    } finally {
      await keeper.stop()
    }
    return result
  }

  /** The work is done, so its result is worth more than one try. */
  async #store(result: string | undefined): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        const { status } = await this.#ask({ do: 'complete', result, retain: this.#retain })
        if (status === 'lost') throw this.#lost()
        return
      } catch (error) {
        if (tries === completeTries || isMillraceError(error, 'LEASE_LOST')) throw error
        await new Promise<void>((resolve) => this.#runtime.clock.after(100 * tries, resolve))
      }
    }
  }

  /** What went wrong counts for more than that the key could not be given back: its lease will end. */
  async #letGo(): Promise<void> {
    try {
      await this.fail()
    } catch (error) {
      this.#runtime.events.emit('error', { error, during: 'idempotent' })
    }
  }

  #ask(word: Word): Promise<GuardResult> {
    return this.#runtime.store.guard({ ...word, key: this.#storedKey, holder: this.#holder } as GuardRequest)
  }

  #lost(): MillraceError {
    return new MillraceError(
      'LEASE_LOST',
      `the idempotency key '${this.key}' was lost while it was worked under; another may have done the same`,
      { field: 'key', value: this.key },
    )
  }
}

type Word = GuardRequest extends infer R
  ? R extends GuardRequest
    ? Omit<R, 'key' | 'holder'>
    : never
  : never

/** Renews a lease every third of it, until it is stopped or the key is lost. */
class Keeper {
  readonly #runtime: Runtime
  readonly #lease: number
  readonly #renew: () => Promise<GuardResult>
  readonly #lost: () => MillraceError
  readonly #controller = new AbortController()
  #renewedAt: number
  #cancel: () => void = () => {}
  #beating: Promise<void> | undefined
  #stopped = false

  constructor(runtime: Runtime, lease: number, renew: () => Promise<GuardResult>, lost: () => MillraceError) {
    this.#runtime = runtime
    this.#lease = lease
    this.#renew = renew
    this.#lost = lost
    this.#renewedAt = runtime.clock.monotonic()
    this.#schedule()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** A renewal on its way must not come after the word that ends it: it would take the key again. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#beating
  }

  #schedule(): void {
    this.#cancel = this.#runtime.clock.after(this.#lease / 3, () => {
      this.#beating = this.#beat()
    })
  }

  async #beat(): Promise<void> {
    const { clock, events } = this.#runtime
    const sentAt = clock.monotonic()
    let isLost: boolean
    try {
      isLost = (await this.#renew()).status !== 'begun'
      if (!isLost) this.#renewedAt = sentAt
    } catch (error) {
      if (!this.#stopped) events.emit('error', { error, during: 'idempotent' })
      isLost = clock.monotonic() - this.#renewedAt >= this.#lease
    }
    if (this.#stopped) return
    if (isLost) this.#controller.abort(this.#lost())
    else this.#schedule()
  }
}

function busyFor(key: string, wait: number): MillraceError {
  return new MillraceError(
    'IDEMPOTENCY_BUSY',
    `another still works under the idempotency key '${key}' after ${wait} ms; try again later, or wait for longer with \`wait\``,
    { field: 'wait', value: key, limit: wait },
  )
}
