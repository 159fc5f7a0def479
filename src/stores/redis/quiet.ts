import type { ClaimRequest, ExchangeRequest, ExchangeResult, SweepReport } from '../../core/store.js'
import { nothingSwept } from '../ledger/sweep.js'
import type { Connection } from './connection.js'
import { scripts } from './scripts.js'

/** Whoever is not woken asks once in this time all the same. */
const longest = 30_000
const shortest = 1_000
/** So often nothing was to be done before it is done all the same: what has expired is in no hurry, least of all when nobody works. */
const mostLooks = { busy: 4, idle: 10 } as const

/**
 * Spares the server questions whose answer is known. A claim that left nothing behind has left word that this process waits;
 * until it is woken, there is nothing to claim. And who sweeps only now and then looks first whether anything is due.
 */
export class Quiet {
  readonly #connection: Connection
  readonly #isListening: () => boolean
  /** The queues that there was nothing left in, and until when that is believed. */
  #emptied = ''
  #emptyUntil = 0
  /** How often something has happened. */
  #signs = 0
  #sweepAt = 0
  #dueAt: number | undefined
  #slotAt: number | undefined
  #looks = 0
  #signsAtLook = 0
  #period = longest
  /** Claims that have not been answered: what came of them only the server knows. */
  readonly #unheard = new Set<string>()

  constructor(connection: Connection, isListening: () => boolean) {
    this.#connection = connection
    this.#isListening = isListening
  }

  /** Something has happened. */
  wake(): void {
    this.#signs++
    this.#emptyUntil = 0
    this.#sweepAt = 0
  }

  /** What a claim would bring, if that is known: nothing. */
  answerTo({ settlements, claim }: ExchangeRequest): ExchangeResult | undefined {
    if (claim === undefined || settlements.length > 0 || !this.#isListening()) return undefined
    if (this.#unheard.has(claim.token)) return undefined
    if (performance.now() >= this.#emptyUntil || queuesOf(claim) !== this.#emptied) return undefined
    return { settled: [], claimed: [], opens: undefined }
  }

  /** A claim begins; what is heard from now on counts. To be told whether it has left nothing, and word that this process waits. */
  asks({ claim }: ExchangeRequest): (waits: boolean) => void {
    if (claim === undefined) return () => {}
    // A worker that is lost is found out within about its lease.
    this.#period = Math.min(longest, Math.max(shortest, claim.lease))
    const signs = this.#signs
    this.#unheard.add(claim.token)
    return (waits) => {
      this.#unheard.delete(claim.token)
      this.#emptied = queuesOf(claim)
      this.#emptyUntil = waits && signs === this.#signs ? performance.now() + this.#period : 0
    }
  }

  /** What a sweep would report that is only now and then, if it can be left out. */
  async reportWithoutSweep(): Promise<SweepReport | undefined> {
    if (!this.#isListening()) return undefined
    if (performance.now() >= this.#sweepAt && !(await this.#look())) return undefined
    return { ...nothingSwept, nextDue: waitFor(this.#dueAt), nextSlot: waitFor(this.#slotAt) }
  }

  /** Whether there is nothing to do now. */
  async #look(): Promise<boolean> {
    const isBusy = this.#signs !== this.#signsAtLook
    this.#signsAtLook = this.#signs
    if (++this.#looks >= (isBusy ? mostLooks.busy : mostLooks.idle)) {
      this.#looks = 0
      return false
    }
    const [work, due, slot] = (await this.#connection.run(scripts.peek, [], { durable: false })) as [
      work: string,
      due: string,
      slot: string,
    ]
    this.#dueAt = momentIn(due)
    this.#slotAt = momentIn(slot)
    const workAt = momentIn(work) ?? Number.POSITIVE_INFINITY
    this.#sweepAt = Math.min(workAt, performance.now() + this.#period)
    return workAt > performance.now()
  }
}

/** Monotonic time. */
function momentIn(wait: string): number | undefined {
  return wait === '' ? undefined : performance.now() + Number(wait)
}

function waitFor(moment: number | undefined): number | undefined {
  return moment === undefined ? undefined : Math.max(0, moment - performance.now())
}

function queuesOf({ picks }: ClaimRequest): string {
  return [...new Set(picks.map(({ queue }) => queue))].sort().join(' ')
}
