import type { NewJob } from '../../core/job.js'
import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import { exchange } from '../ledger/exchange.js'
import { Counted, type EndWords, NotCounted } from './counted.js'
import type { WorkAtDesk } from './desk-options.js'
import type { Needs } from './needs.js'

/** What exchanges at the desk have of an engine. */
export interface ExchangeParts {
  readonly work: WorkAtDesk
  readonly ends: EndWords
  /** What is sure to be needed for jobs that a worker holds, or believes to hold. */
  needs(worker: string, held: Iterable<{ readonly id: string; readonly token: string }>): Needs
  /** Whether there is more to the end of a job than its gates, to this engine alone. */
  isMore(job: NewJob): boolean
  /** Whether the server said that something is not as it was taken to be, so that it cannot be done by count. */
  isNotByCount(error: unknown): boolean
}

/** Exchanges at the desk: by count as far as that goes; if it does not after all, everything is looked at. */
export class DeskExchange {
  readonly #parts: ExchangeParts
  /** The latest claims whose jobs have to be looked at. */
  readonly #special = new Set<string>()

  constructor(parts: ExchangeParts) {
    this.#parts = parts
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const counted = new Counted(request, this.#special, this.#parts.ends)
    try {
      return await this.#byCount(request, counted)
    } catch (error) {
      if (!(error instanceof NotCounted) && !this.#parts.isNotByCount(error)) throw error
      for (const claim of counted.claims) this.#remember(claim)
      return await this.asAWhole(request)
    }
  }

  async #byCount(request: ExchangeRequest, counted: Counted): Promise<ExchangeResult> {
    const needs = this.#parts.needs(request.worker, counted.others)
    for (const gate of counted.gates()) needs.key('gateNum', gate)
    const result = await this.#parts.work(
      (tables, now) => {
        counted.tell(tables, now)
        const result = exchange(tables, { ...request, settlements: counted.others }, now)
        if (request.settlements.length > 0) tables.signals.settled(request.settlements)
        return result
      },
      { needs, ...usually(request) },
      ({ claimed }, tables) => {
        if (request.claim === undefined) return
        tables.heads.complete(claimed, request.claim.token)
        if (tables.hasTakenSpecial(request.worker, this.#parts.isMore)) this.#remember(request.claim.token)
      },
    )
    return { ...result, settled: counted.settled(result.settled) }
  }

  /** With a look at every job. */
  asAWhole(request: ExchangeRequest): Promise<ExchangeResult> {
    const needs = this.#parts.needs(request.worker, request.settlements)
    const options = { needs, isWhole: true, ...usually(request) }
    return this.#parts.work((tables, now) => exchange(tables, request, now), options)
  }

  #remember(claim: string): void {
    this.#special.add(claim)
    for (const oldest of this.#special) {
      if (this.#special.size <= mostSpecial) return
      this.#special.delete(oldest)
    }
  }
}

/** Forgetting one costs its settlements another try. */
const mostSpecial = 1_000

function usually({ worker, claim }: ExchangeRequest) {
  const count = claim?.room.own.reduce((sum, slots) => sum + slots, claim.room.shared)
  return {
    renewsByTaking: true,
    queues: claim?.picks.map(({ queue }) => queue) ?? [],
    ...(count === undefined ? { like: 'settle' } : { count, like: `claim ${worker}` }),
  }
}
