/**
 * Ends of jobs whose gates are all that the desk has to tell of them: these are told how many there are, and the server ends
 * the jobs themselves. So the desk reads none of their rows.
 */
import type { ExchangeRequest, Settlement, SettleResult } from '../../core/store.js'
import type { Lease } from '../ledger/token.js'
import type { ParkingGate } from '../ledger/traffic.js'
import type { PagedTables } from '../page/tables.js'
import { type CountedEnds, type Ends, endsOf, isPlainEnd, leasesOf, settledBy } from './ends.js'

/** Some of it has to be looked at after all. */
export class NotCounted extends Error {}

/** Those that gates cannot tell apart. */
interface Alike {
  readonly lease: Lease
  readonly settlement: Settlement
  readonly seqs: number[]
}

/** What is counted of a request, and what is not. */
export class Counted {
  /** Settlements that are looked at one by one. */
  readonly others: readonly Settlement[]
  readonly #worker: string
  readonly #isCounted: readonly boolean[]
  readonly #counted: readonly Settlement[]
  readonly #ends: Ends
  readonly #alike: readonly Alike[]

  /** `special`: claims whose jobs are looked at in any case. */
  constructor({ worker, settlements, claim, rescue = false }: ExchangeRequest, special: ReadonlySet<string>) {
    const leases = leasesOf(settlements)
    const isOther = (i: number) => rescue || !isPlainEnd(settlements[i] as Settlement)
    const others = new Set(special)
    // One that is repeated tells what it has left.
    if (claim !== undefined) others.add(claim.token)
    leases.forEach((lease, i) => {
      if (lease !== undefined && isOther(i)) others.add(lease.claim)
    })
    // Of one claim all or none, because a claim has one lease.
    this.#isCounted = leases.map((lease) => lease !== undefined && !others.has(lease.claim))
    this.#worker = worker
    this.#counted = settlements.filter((_, i) => this.#isCounted[i])
    this.others = settlements.filter((_, i) => !this.#isCounted[i])
    const own = leases.filter((_, i) => this.#isCounted[i])
    this.#ends = endsOf(this.#counted, own)
    this.#alike = alike(this.#counted, own as Lease[])
  }

  get claims(): readonly string[] {
    return this.#ends.tokens
  }

  /** Numbers of the gates that are to be told. */
  gates(): Set<string> {
    return new Set(this.#alike.flatMap(({ lease }) => numbersIn(lease.note)))
  }

  /** Tells gates, leases and counts. */
  tell(tables: PagedTables, now: number): void {
    if (this.#counted.length === 0) return
    const worker = tables.workers.get(this.#worker)
    const starts = this.#ends.tokens.map((token) => worker?.openLease(token)?.at)
    if (starts.includes(undefined)) throw new NotCounted()
    for (const { lease, settlement, seqs } of this.#alike) {
      const held = worker?.openLease(lease.claim)
      const kind = tables.kinds.byNum(lease.kind)
      const gates = numbersIn(lease.note).map((gate) => tables.books.gateAt(Number(gate)))
      // A gate that is gone has nothing to do with jobs that run.
      if (held === undefined || gates.includes(undefined)) throw new NotCounted()
      for (const seq of seqs) {
        if (!held.covers(seq)) throw new NotCounted()
        held.dropAt(seq)
      }
      const count = seqs.length
      kind.states.running -= count
      if (isKept(settlement)) kind.states.completed += count
      kind.totals.completed += count
      if (!kind.queue.traffic) continue
      const job = { name: kind.name, queue: kind.queue.name, lane: kind.lane, traffic: undefined }
      tables.traffic.ended(job, settlement.outcome, held.at, count, now, gates as ParkingGate[])
    }
    tables.ended = { ...this.#ends, starts: starts as number[] } satisfies CountedEnds
    tables.signals.settled(this.#counted)
  }

  /** Of all settlements, in order. */
  settled(others: readonly SettleResult[]): SettleResult[] {
    const counted = settledBy(this.#ends, null)
    let a = 0
    let b = 0
    return this.#isCounted.map((isCounted) => (isCounted ? counted[a++] : others[b++]) ?? 'lost')
  }
}

function alike(settlements: readonly Settlement[], leases: readonly Lease[]): Alike[] {
  const found = new Map<string, Alike>()
  const seen = new Set<number>()
  leases.forEach((lease, i) => {
    const settlement = settlements[i] as Settlement
    const { seq, claim, kind, note } = lease
    // Of two for the same job the first one counts.
    if (seen.has(seq)) return
    seen.add(seq)
    const { excused } = settlement.outcome
    const name = `${kind} ${note} ${excused} ${isKept(settlement)} ${claim}`
    const same = found.get(name)
    if (same === undefined) found.set(name, { lease, settlement, seqs: [seq] })
    else same.seqs.push(seq)
  })
  return [...found.values()]
}

/** As it is written. */
function isKept({ outcome }: Settlement): boolean {
  return Math.round(outcome.retain) > 0
}

function numbersIn(note: string): string[] {
  return note === '' ? [] : note.split(':')
}
