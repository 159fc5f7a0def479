import type { ClaimedJob } from '../../core/job.js'
import type { Held, Settlement, Signal } from '../../core/store.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import { attempt } from '../../system/attempt.js'

/** Wake-ups. Collected while a verb works, told when it is done and all is consistent again. */
export class Signals {
  readonly #listeners = new Set<(signal: Signal) => void>()
  #queues = new Set<string>()
  /** The queue added last: jobs come in runs of the same queue. */
  #lastQueue: string | undefined
  #soonest = Number.POSITIVE_INFINITY
  #settlements: readonly Settlement[] | undefined
  #claimed: readonly ClaimedJob[] | undefined
  #held: readonly Held[] | undefined
  #cancel = false
  #changed = false
  #news: Signal[] = []

  subscribe(listener: (signal: Signal) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  ready(queue: string): void {
    if (this.#listeners.size === 0 || queue === this.#lastQueue) return
    this.#lastQueue = queue
    this.#queues.add(queue)
  }

  due(delay: number): void {
    if (delay < this.#soonest) this.#soonest = delay
  }

  settled(settlements: readonly Settlement[]): void {
    this.#settlements = settlements
  }

  claimed(jobs: readonly ClaimedJob[]): void {
    this.#claimed = jobs
  }

  reported(held: readonly Held[]): void {
    this.#held = held
  }

  cancel(): void {
    this.#cancel = true
  }

  changed(): void {
    this.#changed = true
  }

  breaker(job: string, phase: BreakerPhase): void {
    this.#news.push({ type: 'breaker', job, phase })
  }

  quarantine(job: string, on: boolean): void {
    this.#news.push({ type: 'quarantine', job, on })
  }

  /** The last thing a verb does. A listener may call the store, so nothing is left over when it is told. */
  tell(): void {
    const queues = this.#queues
    const delay = this.#soonest
    const settlements = this.#settlements
    const claimed = this.#claimed
    const held = this.#held
    const cancel = this.#cancel
    const changed = this.#changed
    if (queues.size > 0) this.#queues = new Set()
    this.#lastQueue = undefined
    this.#soonest = Number.POSITIVE_INFINITY
    this.#settlements = undefined
    this.#claimed = undefined
    this.#held = undefined
    this.#cancel = false
    this.#changed = false
    const news = this.#news
    if (news.length > 0) this.#news = []
    if (this.#listeners.size === 0) return
    if (queues.size > 0) this.#send({ type: 'ready', queues })
    if (delay < Number.POSITIVE_INFINITY) this.#send({ type: 'due', delay })
    if (settlements !== undefined) this.#send({ type: 'settled', settlements })
    if (claimed !== undefined) this.#send({ type: 'claimed', jobs: claimed })
    if (held !== undefined) this.#send({ type: 'reported', held })
    if (cancel) this.#send({ type: 'cancel' })
    if (changed) this.#send({ type: 'changed' })
    for (const signal of news) this.#send(signal)
  }

  #send(signal: Signal): void {
    for (const listener of this.#listeners) attempt(listener, signal)
  }
}
