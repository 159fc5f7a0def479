import type { ClaimedJob } from '../../core/job.js'
import { unstarted } from '../../core/lifecycle.js'
import type { ExchangeRequest, ExchangeResult, Signal } from '../../core/store.js'
import { claimedIn } from './exchange.js'

/** So long a worker has to take what it was given: it may be stopping, or have filled its slots meanwhile. */
const patienceMs = 1_000

export interface GiftParts {
  tell(signal: Signal): void
  exchange(request: ExchangeRequest): Promise<ExchangeResult>
}

/**
 * Jobs that another process gave to a worker of this one as it added them: an idle worker leaves a claim behind on the server (see
 * exchange.lua and insert.lua), so it need not ask for them. They wait here until it does so all the same, at once.
 */
export class Gifts {
  readonly #parts: GiftParts
  readonly #byWorker = new Map<string, ClaimedJob[]>()
  readonly #timers = new Set<NodeJS.Timeout>()

  constructor(parts: GiftParts) {
    this.#parts = parts
  }

  /** `message`: of insert.lua. */
  receive(message: string): void {
    const end = message.indexOf('\x1e')
    const [, worker = '', claim = '', now = '', kind = '', name = '', ...tickets] = message
      .slice(0, end)
      .split('\n')
    const jobs = claimedIn([now, [], [kind, name], tickets.join('\n'), message.slice(end + 1), [], 0], claim)
    const { tell } = this.#parts
    this.#byWorker.set(worker, [...(this.#byWorker.get(worker) ?? []), ...jobs])
    const queues = new Set(jobs.map(({ queue }) => queue))
    tell({ type: 'arriving', queues })
    if (!this.#byWorker.has(worker)) return
    tell({ type: 'ready', queues })
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      void this.#giveBack(worker, jobs)
    }, patienceMs).unref()
    this.#timers.add(timer)
  }

  /** What there is for whoever makes this claim. */
  take({ worker, claim }: ExchangeRequest): readonly ClaimedJob[] | undefined {
    if (claim === undefined || this.#byWorker.size === 0) return undefined
    const jobs = this.#byWorker.get(worker)
    this.#byWorker.delete(worker)
    return jobs
  }

  /** Nobody takes anything any more. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer)
    await Promise.all([...this.#byWorker].map(([worker, jobs]) => this.#giveBack(worker, jobs)))
  }

  /** What has not been taken. */
  async #giveBack(worker: string, jobs: readonly ClaimedJob[]): Promise<void> {
    const waiting = this.#byWorker.get(worker) ?? []
    const left = waiting.filter((job) => jobs.includes(job))
    const others = waiting.filter((job) => !jobs.includes(job))
    if (others.length > 0) this.#byWorker.set(worker, others)
    else this.#byWorker.delete(worker)
    if (left.length === 0) return
    const settlements = left.map(({ id, token }) => ({ id, token, outcome: unstarted(), inserts: undefined }))
    // If that fails, the lease gives them back.
    await this.#parts.exchange({ worker, settlements, claim: undefined }).catch(() => {})
  }
}
