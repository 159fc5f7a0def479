import type { ClaimedJob } from '../../core/job.js'
import { unstarted } from '../../core/lifecycle.js'
import type { ExchangeRequest, ExchangeResult, Signal } from '../../core/store.js'
import { separator } from '../page/separator.js'
import { claimedIn } from './exchange.js'

/** So long a worker has to take what it was given, if its lease is not short: it may be stopping, or have filled its slots meanwhile. */
const patienceMs = 1_000
/** Claims that jobs were given to; a server that forgets may tell of one twice. */
const remembered = 100

export interface GiftParts {
  tell(signal: Signal): void
  exchange(request: ExchangeRequest): Promise<ExchangeResult>
}

interface Gift {
  readonly worker: string
  readonly jobs: readonly ClaimedJob[]
  /** Monotonic time. */
  readonly until: number
}

/**
 * Jobs that another process gave to a worker of this one as it added them: an idle worker leaves a claim behind on the server (see
 * exchange.lua and insert.lua), so it need not ask for them. They wait here until it does so all the same, at once.
 */
export class Gifts {
  readonly #parts: GiftParts
  readonly #waiting = new Set<Gift>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #heard = new Set<string>()

  constructor(parts: GiftParts) {
    this.#parts = parts
  }

  /** `message`: of insert.lua. */
  receive(message: string): void {
    const [head = '', tickets = '', ...bodies] = message.split(separator)
    const [, worker = '', claim = '', now = '', kind = '', name = '', lease = ''] = head.split('\n')
    if (this.#isKnown(claim)) return
    const jobs = claimedIn([now, [], [kind, name], tickets, bodies, [], 0, ''], claim)
    const patience = Math.min(patienceMs, Number(lease) / 3)
    const gift: Gift = { worker, jobs, until: performance.now() + patience }
    this.#waiting.add(gift)
    const queues = new Set(jobs.map(({ queue }) => queue))
    const { tell } = this.#parts
    tell({ type: 'arriving', queues })
    if (!this.#waiting.has(gift)) return
    tell({ type: 'ready', queues })
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      void this.#giveBack(gift)
    }, patience).unref()
    this.#timers.add(timer)
  }

  #isKnown(claim: string): boolean {
    if (this.#heard.has(claim)) return true
    this.#heard.add(claim)
    for (const oldest of this.#heard) {
      if (this.#heard.size <= remembered) break
      this.#heard.delete(oldest)
    }
    return false
  }

  /** Whether there is something for whoever makes this claim. */
  has({ worker, claim }: ExchangeRequest): boolean {
    return claim !== undefined && this.#waiting.size > 0 && this.#of(worker).length > 0
  }

  take(worker: string): ClaimedJob[] {
    const gifts = this.#of(worker)
    for (const gift of gifts) this.#waiting.delete(gift)
    return gifts.flatMap(({ jobs }) => jobs)
  }

  /** One that has waited for too long may be another's by now. */
  #of(worker: string): Gift[] {
    return [...this.#waiting].filter((gift) => gift.worker === worker && performance.now() < gift.until)
  }

  /** Nobody takes anything any more. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer)
    await Promise.all([...this.#waiting].map((gift) => this.#giveBack(gift)))
  }

  /** If it has not been taken. */
  async #giveBack(gift: Gift): Promise<void> {
    if (!this.#waiting.delete(gift)) return
    const { worker, jobs } = gift
    const settlements = jobs.map(({ id, token }) => ({ id, token, outcome: unstarted(), inserts: undefined }))
    // If that fails, the lease gives them back.
    await this.#parts.exchange({ worker, settlements, claim: undefined }).catch(() => {})
  }
}
