import type { Runtime } from '../client/runtime.js'
import type { ClaimedJob } from '../core/job.js'
import { type Outcome, unstarted } from '../core/lifecycle.js'
import type { ClaimRequest, ExchangeResult, Settlement, SettleResult } from '../core/store.js'
import { gather } from '../system/turn.js'
import type { Run } from './run.js'

export interface ExchangePartner {
  /** What to claim now, if anything; `settling` says that an exchange takes place in any case. */
  wanted(settling: boolean): ClaimRequest | undefined
  /** `opens`: milliseconds until a limit that holds up others opens. */
  claimed(jobs: readonly ClaimedJob[], opens: number | undefined): void
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

/** Fewer outcomes are not worth an exchange of their own. */
const fewestAtOnce = 50
const firstRetryMs = 50
const longestRetryMs = 5_000

/**
 * The worker's conversation with the store: what ended goes out, what is next comes in, in one exchange at
 * a time. Outcomes of one turn share an exchange; when the store does not answer, they are kept and sent
 * again until it does.
 */
export class Exchange {
  readonly #runtime: Runtime
  readonly #worker: string
  readonly #partner: ExchangePartner
  #ended: Ended[] = []
  /** Those of the exchange that is on its way. */
  #sent: readonly Ended[] = []
  #scheduled = false
  #inFlight = false
  /** Woken while an exchange was on its way: its answer may be older than the news. */
  #again = false
  #unheard: ClaimRequest | undefined
  /** So many outcomes of one turn are sent before it is over: a server works on them while other jobs run. */
  #enough = Number.POSITIVE_INFINITY
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
    if (this.#ended.length >= this.#enough && !this.#inFlight) this.#exchange()
    else this.wake()
  }

  /** Hands back jobs that never started. */
  giveBack(jobs: Iterable<ClaimedJob>): void {
    for (const job of jobs) this.settle(job, unstarted())
  }

  /** Something may be there to claim, or a slot is free. */
  wake(): void {
    if (this.#scheduled || this.#stopped) return
    if (this.#inFlight) {
      this.#again = true
      return
    }
    this.#scheduled = true
    gather(() => this.#exchange())
  }

  /** The same, if nothing else is about to be sent: before this returns. `expect` is told that it is. */
  now(expect: () => void): void {
    if (this.#scheduled || this.#stopped || this.#inFlight) return
    expect()
    this.#exchange()
  }

  /** Nothing is on its way: every outcome so far has been stored. */
  get idle(): boolean {
    return this.#ended.length === 0 && !this.#inFlight
  }

  /** Jobs whose outcomes are not known to be stored. */
  *leaving(): Generator<ClaimedJob, void> {
    for (const { job } of this.#sent) yield job
    for (const { job } of this.#ended) yield job
  }

  /** The token of a claim whose answer has not come. */
  get claiming(): string | undefined {
    return this.#unheard?.token
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

  #exchange(): void {
    this.#scheduled = false
    if (this.#stopped || this.#inFlight) return
    // A claim whose answer never came is asked again: the store may have carried it out.
    const claim = this.#unheard ?? this.#partner.wanted(this.#ended.length > 0)
    if (this.#ended.length === 0 && claim === undefined) return this.#tellIdle()
    const ended = this.#ended
    this.#ended = []
    this.#sent = ended
    this.#inFlight = true
    const settlements = ended.map((entry) => entry.settlement)
    this.#unheard = claim
    this.#runtime.store.exchange({ worker: this.#worker, settlements, claim }).then(
      (result) => this.#answered(ended, claim, result),
      (error: unknown) => this.#unanswered(ended, error),
    )
  }

  #answered(ended: readonly Ended[], claim: ClaimRequest | undefined, result: ExchangeResult): void {
    this.#inFlight = false
    this.#sent = []
    this.#unheard = undefined
    this.#failures = 0
    for (let i = 0; i < ended.length; i++) {
      const { job, run, settlement } = ended[i] as Ended
      this.#partner.settled(job, run, settlement.outcome, result.settled[i] as SettleResult)
    }
    if (claim !== undefined) {
      this.#learn(result.claimed.length)
      this.#partner.claimed(result.claimed, result.opens)
    }
    this.#partner.exchanged()
    const again = this.#again
    this.#again = false
    if (again || this.#ended.length > 0) this.wake()
    else this.#tellIdle()
  }

  /** Half of what came is enough, if that is much. */
  #learn(claimed: number): void {
    const isMuch = claimed >= 2 * fewestAtOnce && this.#runtime.store.capabilities.remote === true
    this.#enough = isMuch ? Math.ceil(claimed / 2) : Number.POSITIVE_INFINITY
  }

  #unanswered(ended: readonly Ended[], error: unknown): void {
    this.#ended = [...ended, ...this.#ended]
    this.#sent = []
    this.#failures++
    this.#runtime.events.emit('error', { error, during: 'exchange' })
    const pause = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.#failures, 10))
    this.#runtime.clock.after(pause * (0.5 + this.#runtime.random() / 2), () => {
      this.#inFlight = false
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
