/**
 * Hands on what an outbox has: claims rows, gives them to their target, and writes down what became of them. Any number of
 * relays may do that at the same time, in one process or in many. One that ends in between, however that comes, leaves its
 * rows to the others, and what it had handed on already is handed on once more with the same id.
 */

import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffDelay, type CompiledBackoff } from '../core/backoff.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { Emitter } from '../core/events.js'
import { onShutdown } from '../system/signals.js'
import { Alarm } from './alarm.js'
import { Follower } from './follower.js'
import { Health } from './health.js'
import { judge, textOf } from './judge.js'
import type { CompiledRelay } from './options.js'
import type { Claim, Kind, OutboxStore, Row, Verdict } from './store.js'
import { slots } from './store.js'
import type { Delivery, Target } from './target.js'

export interface RelayEvents {
  /** Rows were handed on. */
  relayed: { readonly kind: Kind; readonly count: number }
  /** A row, and with it its key, waits after a failure. */
  held: { readonly kind: Kind; readonly id: string; readonly failure: string; readonly delay: number }
  /** A row was refused too often; `outbox.aside` has it. */
  aside: { readonly kind: Kind; readonly id: string; readonly failure: string; readonly attempts: number }
  /** With source 'replication': the relay is told of rows as they are committed from now on, or looks for them again. */
  following: { readonly kind: Kind; readonly on: boolean }
  /** The outbox or the target did not answer as it should; the relay goes on when it can. */
  error: { readonly error: unknown; readonly during: string }
}

export interface RelayParts {
  readonly store: OutboxStore
  readonly targets: readonly Target[]
  readonly options: CompiledRelay
  readonly history: boolean
  readonly ready: () => Promise<void>
  /** Forgets what is old; true when there may be more. */
  readonly prune: () => Promise<boolean>
  readonly random: () => number
}

export class Relay {
  readonly #parts: RelayParts
  readonly #events = new Emitter<RelayEvents>(warn)
  /** Aborts when no more rows are to be claimed. */
  readonly #stopping = new AbortController()
  /** Ends what is under way. */
  readonly #asking = new Set<AbortController>()
  readonly #alarms: Alarm[] = []
  readonly #followers: Follower[] = []
  readonly #whenStopped: (() => void)[] = []
  /** Resolves when it has stopped. */
  readonly stopped: Promise<void>
  #tellStopped = () => {}
  #starting: Promise<void> | undefined
  #running: Promise<unknown> = Promise.resolve()

  constructor(parts: RelayParts) {
    this.#parts = parts
    this.stopped = new Promise((resolve) => {
      this.#tellStopped = resolve
    })
    // All loops that rest listen to it.
    setMaxListeners(0, this.#stopping.signal)
  }

  /** Listens to what this relay does. Returns a function that ends it. */
  on<E extends keyof RelayEvents>(event: E, listener: (event: RelayEvents[E]) => void): () => void {
    return this.#events.on(event, listener)
  }

  /** Resolves when it is at work. One that was stopped starts no more. */
  start(): Promise<void> {
    if (this.#stopping.signal.aborted) return Promise.reject(over())
    this.#starting ??= this.#start().catch((error: unknown) => {
      this.#starting = undefined
      throw error
    })
    return this.#starting
  }

  async #start(): Promise<void> {
    await this.#parts.ready()
    if (this.#stopping.signal.aborted) throw over()
    const { store, targets, options } = this.#parts
    if (options.handleSignals)
      this.#whenStopped.push(onShutdown((force) => this.stop(force ? { grace: 0 } : {})))
    const loops = targets.flatMap((target) => {
      const alarm = new Alarm()
      this.#alarms.push(alarm)
      const health = new Health(options.batch)
      const follower = options.source === 'replication' ? this.#follower(target, health) : undefined
      const unsubscribe = store.subscribe((kind) => {
        if (kind !== undefined && kind !== target.kind) return
        if (follower?.isFollowing !== true) alarm.ring()
      })
      this.#whenStopped.push(unsubscribe)
      const polling = Array.from({ length: options.concurrency }, () => this.#relay(target, health, alarm))
      return follower === undefined ? polling : [...polling, follower.run(this.#stopping.signal)]
    })
    this.#running = Promise.all([...loops, this.#upkeep()])
  }

  /** Bytes that the server keeps for the one that follows, as of a few seconds ago; 0 when none does. */
  get lag(): number {
    return Math.max(0, ...this.#followers.map(({ lag }) => lag))
  }

  /** Claims no more, and waits for what is under way; what is left after `grace` goes back as it was. */
  async stop({ grace }: { readonly grace?: Duration } = {}): Promise<void> {
    const ms = grace === undefined ? this.#parts.options.grace : milliseconds(grace, 'grace')
    this.#stopping.abort()
    for (const alarm of this.#alarms) alarm.close()
    const giveUp = setTimeout(() => this.#end(), Math.min(ms, longestTimer))
    await this.#starting?.catch(() => {})
    await this.#running
    clearTimeout(giveUp)
    for (const forget of this.#whenStopped.splice(0)) forget()
    this.#tellStopped()
  }

  #end(): void {
    for (const asking of this.#asking) asking.abort(stopped())
  }

  async #relay(target: Target, health: Health, alarm: Alarm): Promise<void> {
    const { store, history, options } = this.#parts
    let from = Math.floor(this.#parts.random() * slots)
    while (!this.#stopping.signal.aborted) {
      const { limit } = health
      const rows = await this.#next(target, health, (within) =>
        store.claim({ kind: target.kind, limit, from, within, history }),
      )
      from = ((rows.at(-1)?.slot ?? from) + 1) % slots
      // There may be more, and another loop may be asleep.
      if (rows.length >= limit) alarm.ring()
      if (health.failures > 0) await this.#rest(health.failures)
      else if (rows.length === 0) await alarm.wait(options.poll)
    }
  }

  #follower(target: Target, health: Health): Follower {
    const { store, options, history } = this.#parts
    const follower = new Follower({
      target,
      health,
      maxLag: options.maxLag,
      follow: () => {
        const request = { kind: target.kind, history, within: options.timeout + marginMs }
        return this.#unlessStopped(store.follow(request), async (late) => late?.close())
      },
      figures: () => store.figures(),
      claimed: (claim) => this.#next(target, health, claim),
      ask: (rows) => this.#ask(target, rows),
      judge: (rows, deliveries) => judge(rows, deliveries, { ...options, random: this.#parts.random }),
      emit: (event, told) => this.#events.emit(event, told),
    })
    this.#followers.push(follower)
    return follower
  }

  /** One batch. Whatever goes wrong is told, and the loop goes on. */
  async #next(
    target: Target,
    health: Health,
    take: (within: number) => Promise<Claim>,
  ): Promise<readonly Row[]> {
    let claim: Claim
    try {
      // The claim must outlast the time that the target is given.
      claim = await this.#unlessStopped(take(this.#parts.options.timeout + marginMs), (late) =>
        late.release(),
      )
    } catch (error) {
      return this.#failed(health, error, 'outbox.claim')
    }
    const { rows } = claim
    if (rows.length === 0) return rows
    try {
      if (this.#stopping.signal.aborted) throw stopped()
      await this.#deliver(claim, target, health)
    } catch (error) {
      await claim.release().catch(() => {}) // its end is the end of the claim as well
      return this.#failed(health, error, `outbox: ${target.name}`)
    }
    return rows
  }

  /** Nobody waits for a database any more when the relay is to stop; what comes too late is given back. */
  async #unlessStopped<T>(coming: Promise<T>, giveBack: (late: T) => Promise<void>): Promise<T> {
    const { signal } = this.#stopping
    let give = () => {}
    const abandoned = new Promise<never>((_, reject) => {
      give = () => reject(stopped())
      signal.addEventListener('abort', give, { once: true })
    })
    try {
      return await Promise.race([coming, abandoned])
    } catch (error) {
      if (signal.aborted) coming.then(giveBack).catch(() => {})
      throw error
    } finally {
      signal.removeEventListener('abort', give)
    }
  }

  async #deliver(claim: Claim, target: Target, health: Health): Promise<void> {
    const { rows } = claim
    const { options, random } = this.#parts
    const verdicts = await this.#ask(target, rows).then(
      (deliveries) => {
        if (deliveries.includes('done')) health.worked()
        else if (isAllFailed(deliveries)) {
          // A row that is alone makes way for others; of many nobody knows which one it is.
          if (rows.length > 1) throw failureOf(deliveries)
          health.failed()
        }
        return judge(rows, deliveries, { ...options, random })
      },
      (error: unknown) => {
        if (rows.length > 1) throw error
        return [this.#suspect(rows[0] as Row, error, health)]
      },
    )
    if ((await claim.settle(verdicts)) === 'lost') throw new Error('the claim was lost; its rows come again')
    this.#tell(target.kind, rows, verdicts)
  }

  /** Rejects when the target takes too long, or when the relay is to end. */
  async #ask(target: Target, rows: readonly Row[]): Promise<readonly Delivery[]> {
    const asking = new AbortController()
    const { signal } = asking
    const { timeout } = this.#parts.options
    const late = new Error(`${target.name} did not take ${rows.length} rows within ${timeout} ms`)
    const timer = setTimeout(() => asking.abort(late), timeout)
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    this.#asking.add(asking)
    try {
      return await Promise.race([target.deliver(rows, signal), aborted])
    } finally {
      clearTimeout(timer)
      this.#asking.delete(asking)
    }
  }

  /** The only row of its batch. Its line makes way for others, which will show who is to blame. */
  #suspect(row: Row, error: unknown, health: Health): Verdict {
    const { options, random } = this.#parts
    const isBlamed = health.blames(row)
    health.failed()
    this.#events.emit('error', { error, during: `outbox: ${row.kind} '${row.id}'` })
    const status = isBlamed ? 'refused' : 'failed'
    const [verdict] = judge([row], [{ status, error }], { ...options, random })
    return verdict as Verdict
  }

  #failed(health: Health, error: unknown, during: string): readonly Row[] {
    health.failed()
    if (!this.#stopping.signal.aborted) this.#events.emit('error', { error, during })
    return []
  }

  #tell(kind: Kind, rows: readonly Row[], verdicts: readonly Verdict[]): void {
    const count = verdicts.filter((verdict) => verdict.do === 'done').length
    if (count > 0) this.#events.emit('relayed', { kind, count })
    for (const [i, verdict] of verdicts.entries()) {
      const { id } = rows[i] as Row
      if (verdict.do === 'hold')
        this.#events.emit('held', { kind, id, failure: verdict.failure, delay: verdict.delay })
      if (verdict.do === 'set aside')
        this.#events.emit('aside', { kind, id, failure: verdict.failure, attempts: verdict.attempts })
    }
  }

  async #rest(failures: number): Promise<void> {
    const ms = backoffDelay(resting, { attempt: failures, previous: 0, error: undefined }, this.#parts.random)
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => {})
  }

  async #upkeep(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      let more = false
      try {
        more = await this.#parts.prune()
      } catch (error) {
        this.#events.emit('error', { error, during: 'outbox.prune' })
      }
      await sleep(more ? 10 : upkeepMs, undefined, { signal }).catch(() => {})
    }
  }
}

const marginMs = 5_000
const upkeepMs = 60_000
const longestTimer = 2 ** 31 - 1

const resting: CompiledBackoff = {
  type: 'exponential',
  initialDelay: 25,
  maxDelay: 5_000,
  factor: 2,
  jitter: 'equal',
  custom: undefined,
}

function over(): MillraceError {
  return new MillraceError('CLOSED', 'the relay was stopped; make another one with outbox.relay()')
}

function stopped(): Error {
  return new Error('the relay was stopped')
}

function isAllFailed(deliveries: readonly Delivery[]): boolean {
  return deliveries.every((delivery) => delivery !== 'done' && delivery.status === 'failed')
}

function failureOf(deliveries: readonly Delivery[]): unknown {
  const [first] = deliveries
  return first === undefined || first === 'done' ? undefined : first.error
}

/** An error that nobody listens to must still be seen. */
function warn({ error, during }: RelayEvents['error']): void {
  process.emitWarning(`${during}: ${textOf(error)} (listen with relay.on('error', …))`, 'MillraceWarning')
}
