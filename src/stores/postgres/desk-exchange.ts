import type { ExchangeRequest, ExchangeResult } from '../../core/store.js'
import { exchange } from '../ledger/exchange.js'
import type { AtDesk } from './at-desk.js'
import { Counted, NotCounted } from './counted.js'
import { sqlState } from './errors.js'
import { deskNeeds } from './needs.js'

/** Exchanges at the desk: by count as far as that goes; if it does not after all, everything is looked at. */
export class DeskExchange {
  readonly #desk: AtDesk
  /** The latest claims whose jobs have to be looked at. */
  readonly #special = new Set<string>()

  constructor(desk: AtDesk) {
    this.#desk = desk
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const counted = new Counted(request, this.#special)
    try {
      return await this.#byCount(request, counted)
    } catch (error) {
      if (!(error instanceof NotCounted) && !notByCount.has(sqlState(error) ?? '')) throw error
      for (const claim of counted.claims) this.#remember(claim)
      return await this.asAWhole(request)
    }
  }

  async #byCount(request: ExchangeRequest, counted: Counted): Promise<ExchangeResult> {
    const needs = deskNeeds(request.worker, counted.others)
    for (const gate of counted.gates()) needs.key('gateNum', gate)
    const result = await this.#desk.work(
      (tables, now) => {
        counted.tell(tables, now)
        return exchange(tables, { ...request, settlements: counted.others }, now)
      },
      { needs, ...usually(request) },
      ({ claimed }, tables) => {
        if (request.claim === undefined) return
        tables.heads.complete(claimed, request.claim.token)
        if (tables.hasTakenSpecial(request.worker)) this.#remember(request.claim.token)
      },
    )
    return { ...result, settled: counted.settled(result.settled) }
  }

  /** With a look at every job. */
  asAWhole(request: ExchangeRequest): Promise<ExchangeResult> {
    const needs = deskNeeds(request.worker, request.settlements)
    const options = { needs, isWhole: true, ...usually(request) }
    return this.#desk.work((tables, now) => exchange(tables, request, now), options)
  }

  #remember(claim: string): void {
    this.#special.add(claim)
    for (const oldest of this.#special) {
      if (this.#special.size <= mostSpecial) return
      this.#special.delete(oldest)
    }
  }
}

/** Said by the server of what is not as it was taken to be, and of jobs that are too large to be told as one text. */
const notByCount: ReadonlySet<string> = new Set(['MR001', '54000'])

/** Forgetting one costs its settlements another try. */
const mostSpecial = 1_000

function usually({ worker, claim }: ExchangeRequest) {
  const count = claim?.room.own.reduce((sum, slots) => sum + slots, claim.room.shared)
  return {
    renewsByTaking: true,
    ...(count === undefined ? { like: 'settle' } : { count, like: `claim ${worker}` }),
  }
}
