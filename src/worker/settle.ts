import type { Runtime } from '../client/runtime.js'
import type { ClaimedJob } from '../core/job.js'
import { type Outcome, unstarted } from '../core/lifecycle.js'
import type { ClaimRequest, ExchangeResult, Settlement, SettleResult } from '../core/store.js'
import { gather } from '../system/turn.js'
import { sizeOf } from './fetch.js'
import type { Run } from './run.js'

export interface ExchangePartner {
  /** What to claim now, if anything; `settling` says that an exchange takes place in any case, `coming` what others may bring. */
  wanted(settling: boolean, coming: number): ClaimRequest | undefined
  /** `opens`: milliseconds until a limit that holds up others opens. */
  claimed(claim: ClaimRequest, jobs: readonly ClaimedJob[], opens: number | undefined): void
  /** An exchange is over, whatever it brought. */
  exchanged(): void
  settled(job: ClaimedJob, run: Run | undefined, outcome: Outcome, result: SettleResult): void
}

interface Ended {
  readonly job: ClaimedJob
  readonly settlement: Settlement
  /** Undefined for a job that was given back unstarted. */
  readonly run: Run | undefined
}

export function settlementOf({ id, token }: ClaimedJob, outcome: Outcome, run: Run | undefined): Settlement {
  // What a failed attempt added goes with it: the next attempt will add it again.
  const added = outcome.to === 'completed' ? run?.inserts : run?.consequences
  const inserts = added === undefined ? undefined : [...added]
  return { id, token, outcome, inserts, report: run?.lastReport() }
}

/** One exchange with the store, until it is answered. */
interface Flight {
  readonly ended: readonly Ended[]
  readonly claim: ClaimRequest | undefined
}

/** A claim that brings fewer jobs is waited for; with more there are two exchanges on their way, of so many outcomes at most. */
const many = 100
const mostAtOnce = 500
/** No exchange has more outcomes, however many wait for the store to answer again. */
const mostEnded = 1_000
const firstRetryMs = 50
const longestRetryMs = 5_000

/**
 * The worker's conversation with the store: what ended goes out, what is next comes in, in one exchange at
 * a time. Outcomes of one turn share an exchange; when the store does not answer, they are kept and sent
 * again until it does. Where the store is on a server and jobs are many, it works on one exchange while
 * the jobs of another run, and outcomes are sent before their turn is over.
 */
export class Exchange {
  readonly #runtime: Runtime
  readonly #worker: string
  readonly #partner: ExchangePartner
  #ended: Ended[] = []
  readonly #flights = new Set<Flight>()
  /** Claims that were never answered. */
  readonly #unheard: ClaimRequest[] = []
  /** Of one turn, so many outcomes are sent at once, beside an exchange that is on its way. */
  #enough = Number.POSITIVE_INFINITY
  #scheduled = false
  /** The store does not answer; in a while it is asked again. */
  #pausing = false
  /** Woken while an exchange was on its way: its answer may be older than the news. */
  #again = false
  #failures = 0
  #stopped = false
  #idleWaiters: (() => void)[] = []

  constructor(runtime: Runtime, worker: string, partner: ExchangePartner) {
    this.#runtime = runtime
    this.#worker = worker
    this.#partner = partner
  }

  /** Hands over an outcome; a job that never started has no run. */
  settle(job: ClaimedJob, outcome: Outcome, run?: Run): void {
    this.#ended.push({ job, settlement: settlementOf(job, outcome, run), run })
    if (this.#ended.length >= this.#enough && this.#flights.size < 2 && !this.#pausing) this.#exchange()
    else this.wake()
  }

  /** Hands back jobs that never started. */
  giveBack(jobs: Iterable<ClaimedJob>): void {
    for (const job of jobs) this.settle(job, unstarted())
  }

  /** Something may be there to claim, or a slot is free. */
  wake(): void {
    if (this.#scheduled || this.#stopped) return
    if (this.#isAway) {
      this.#again = true
      return
    }
    this.#scheduled = true
    gather(() => this.#turnIsOver())
  }

  /** The same, if nothing else is about to be sent: before this returns. `expect` is told that it is. */
  now(expect: () => void): void {
    if (this.#scheduled || this.#stopped || this.#isAway) return
    expect()
    this.#exchange()
  }

  /** Nothing is on its way: every outcome so far has been stored. */
  get idle(): boolean {
    return this.#ended.length === 0 && !this.#isAway
  }

  get #isAway(): boolean {
    return this.#flights.size > 0 || this.#pausing
  }

  /** Jobs whose outcomes are not known to be stored. */
  *leaving(): Generator<ClaimedJob, void> {
    for (const { ended } of this.#flights) for (const { job } of ended) yield job
    for (const { job } of this.#ended) yield job
  }

  /** The tokens of claims whose answers have not come. */
  get claiming(): string[] {
    return [...this.#claimsAway(), ...this.#unheard].map(({ token }) => token)
  }

  *#claimsAway(): Generator<ClaimRequest, void> {
    for (const { claim } of this.#flights) if (claim !== undefined) yield claim
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** Resolves when `idle`. */
  flushed(): Promise<void> {
    if (this.idle || this.#stopped) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  /** Sends nothing any more; jobs that are still held come back when the lease runs out. */
  stop(): void {
    this.#stopped = true
    this.#tellIdle()
  }

  #turnIsOver(): void {
    this.#scheduled = false
    if (this.#isAway) this.#again = true
    else this.#exchange()
  }

  #exchange(): void {
    if (this.#stopped) return
    // A claim whose answer never came is asked again: the store may have carried it out.
    const claim = this.#unheard.shift() ?? this.#partner.wanted(this.#ended.length > 0, this.#coming())
    if (this.#ended.length === 0 && claim === undefined) return this.#tellIdle()
    const flight: Flight = { ended: this.#takeEnded(), claim }
    this.#flights.add(flight)
    const settlements = flight.ended.map((entry) => entry.settlement)
    this.#runtime.store.exchange({ worker: this.#worker, settlements, claim }).then(
      (result) => this.#answered(flight, result),
      (error: unknown) => this.#unanswered(flight, error),
    )
  }

  #takeEnded(): Ended[] {
    const ended = this.#ended
    this.#ended = ended.length > mostEnded ? ended.slice(mostEnded) : []
    return ended.length > mostEnded ? ended.slice(0, mostEnded) : ended
  }

  #coming(): number {
    let coming = 0
    for (const claim of this.#claimsAway()) coming += sizeOf(claim)
    return coming
  }

  #answered(flight: Flight, result: ExchangeResult): void {
    const { ended, claim } = flight
    this.#flights.delete(flight)
    this.#failures = 0
    for (let i = 0; i < ended.length; i++) {
      const { job, run, settlement } = ended[i] as Ended
      this.#partner.settled(job, run, settlement.outcome, result.settled[i] as SettleResult)
    }
    if (claim !== undefined) {
      this.#learn(result.claimed.length)
      this.#partner.claimed(claim, result.claimed, result.opens)
    }
    this.#partner.exchanged()
    const again = this.#again || this.#unheard.length > 0
    this.#again = false
    if (again || this.#ended.length > 0) this.wake()
    else this.#tellIdle()
  }

  #learn(claimed: number): void {
    const isMuch = claimed >= many && this.#runtime.store.capabilities.remote === true
    this.#enough = isMuch ? Math.min(claimed, mostAtOnce) : Number.POSITIVE_INFINITY
  }

  #unanswered(flight: Flight, error: unknown): void {
    this.#flights.delete(flight)
    this.#ended = [...flight.ended, ...this.#ended]
    if (flight.claim !== undefined) this.#unheard.push(flight.claim)
    this.#runtime.events.emit('error', { error, during: 'exchange' })
    if (this.#pausing) return
    this.#pausing = true
    this.#failures++
    const pause = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.#failures, 10))
    this.#runtime.clock.after(pause * (0.5 + this.#runtime.random() / 2), () => {
      this.#pausing = false
      this.wake()
    })
  }

  #tellIdle(): void {
    if (!this.idle && !this.#stopped) return
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const tell of waiters) tell()
  }
}
