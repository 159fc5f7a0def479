/** Turns the steps of a lockstep run into requests, and remembers the ids and leases that they speak of. */
import type { ClaimedJob, NewJob } from '../../core/job.js'
import { type LanePolicy, planPicks, spreadTurns } from '../../core/lanes.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { ClaimRequest, Settlement, SettleResult } from '../../core/store.js'
import { newJob, wait } from './helpers.js'
import { type LockstepJob, type LockstepSettlement, lease } from './lockstep-steps.js'
import { forge } from './model-requests.js'
import { type ClaimStep, trafficOf } from './traffic-parts.js'
import { outcomeOf } from './traffic-run.js'

const weighted: LanePolicy = { strict: false, turns: spreadTurns([8, 4, 2, 1]), reserved: [0, 0, 0, 0] }

interface GivenLease {
  readonly id: string
  readonly worker: string
  /** One for each store. */
  readonly tokens: readonly string[]
}

/** A settlement of a lease, with a token for each store. */
type Settling = Omit<Settlement, 'token'> & { readonly of: GivenLease; readonly forged: boolean }

export class LockstepRequests {
  /** All ids ever given. */
  readonly ids: string[] = []
  #held: GivenLease[] = []
  #ended: GivenLease
  /** Jobs that each worker was given: its turns. */
  readonly #turns = new Map<string, number>()
  #serial = 0

  constructor(stores: number) {
    this.#ended = { id: 'nobody', worker: 'nobody', tokens: Array.from({ length: stores }, () => 'nothing') }
  }

  job({ again, dedupe, maxCrashes, ...step }: LockstepJob): NewJob {
    const { queue, name, lane, delay } = step
    const input = `${++this.#serial}`
    const fields = { queue, name, lane, delay, input, maxCrashes, traffic: trafficOf(step), dedupe }
    return newJob({ ...fields, id: this.#idFor(again) })
  }

  #idFor(again: number | undefined): string {
    const known = again === undefined ? undefined : this.ids.at(-1 - again)
    if (known !== undefined) return known
    const id = `j${this.ids.length + 1}`
    this.ids.push(id)
    return id
  }

  idAt(back: number): string {
    return this.ids.at(-1 - back) ?? 'nobody'
  }

  settlings(worker: string, steps: readonly LockstepSettlement[]): Settling[] {
    const held = this.heldBy(worker)
    return steps.flatMap((step, i): Settling[] => {
      const of = step.wrong === 'stale' ? this.#ended : held[i]
      if (of === undefined) return []
      const outcome = lockstepOutcome(step)
      const inserts = step.inserts?.map((job) => this.job(job))
      const report = step.report ? { progress: `${++this.#serial}`, logs: [this.#line()] } : undefined
      return [{ id: of.id, of, forged: step.wrong === 'forged', outcome, inserts, report }]
    })
  }

  heldBy(worker: string): GivenLease[] {
    return this.#held.filter((given) => given.worker === worker)
  }

  #line() {
    return { at: this.#serial, level: 'info' as const, text: 'line' }
  }

  claim(worker: string, { count, queues, strict }: ClaimStep): ClaimRequest {
    const room = { shared: count, own: [0, 0, 0, 0] }
    const turn = this.#turns.get(worker) ?? 0
    const claim = ++this.#serial
    const picks = planPicks(room, { ...weighted, strict }, queues, { turn, claim })
    return { token: `claim-${claim}`, lease, room, picks, turn }
  }

  /** The same jobs, as each store gave them. */
  given(worker: string, claimed: readonly (readonly ClaimedJob[])[]): void {
    const [first = []] = claimed
    this.#turns.set(worker, (this.#turns.get(worker) ?? 0) + first.length)
    for (const [i, { id }] of first.entries())
      this.#held.push({ id, worker, tokens: claimed.map((jobs) => (jobs[i] as ClaimedJob).token) })
  }

  settled(settlings: readonly Settling[], results: readonly SettleResult[]): void {
    for (const [i, { of, forged }] of settlings.entries()) {
      if (results[i] !== 'lost' || !forged) this.#end(of)
    }
  }

  /** By others, because the worker was lost. */
  rescued(ids: readonly string[]): void {
    for (const given of this.#held.filter(({ id }) => ids.includes(id))) this.#end(given)
  }

  #end(lease: GivenLease): void {
    this.#held = this.#held.filter((given) => given !== lease)
    this.#ended = lease
  }
}

export function settlementsFor(store: number, settlings: readonly Settling[]): Settlement[] {
  return settlings.map(({ of, forged, ...rest }) => {
    const token = of.tokens[store] as string
    return { ...rest, token: forged ? forge(token) : token }
  })
}

function lockstepOutcome({ outcome, vanish }: LockstepSettlement): Outcome {
  const made = outcome.to === 'wait' ? wait() : outcomeOf(outcome)
  return vanish ? { ...made, retain: 0 } : made
}
