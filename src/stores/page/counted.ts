/**
 * Ends of jobs whose gates are all that the desk has to tell of them: these are told how many there are, and the server ends
 * the jobs themselves. So the desk reads none of their rows.
 */
import type { ExchangeRequest, Settlement, SettleResult } from '../../core/store.js'
import type { Lease } from '../ledger/token.js'
import type { ParkingGate } from '../ledger/traffic.js'
import type { PagedTables } from './tables.js'

/** Some of it has to be looked at after all. */
export class NotCounted extends Error {}

/** How an engine speaks of ends. */
export interface EndWords {
  /** What the settlement's token says. */
  leaseOf(settlement: Settlement): Lease | undefined
  /** Whether nothing but that it completed has to be told of it. */
  isPlainEnd(settlement: Settlement): boolean
  /** What the server is to end by itself. No two are of the same job. `startOf`: when a claim of the worker began. */
  written(ends: readonly CountedEnd[], worker: string, startOf: (claim: string) => number): unknown
}

export interface CountedEnd {
  readonly settlement: Settlement
  readonly lease: Lease
}

/** Those that gates cannot tell apart. */
interface Alike extends CountedEnd {
  readonly seqs: number[]
}

/** What is counted of a request, and what is not. */
export class Counted {
  /** Settlements that are looked at one by one. */
  readonly others: readonly Settlement[]
  readonly #worker: string
  readonly #words: EndWords
  /** Of all settlements, in order: undefined for those that are not counted. */
  readonly #results: readonly (SettleResult | undefined)[]
  readonly #ends: readonly CountedEnd[]
  readonly #alike: readonly Alike[]

  /** `special`: claims whose jobs are looked at in any case. */
  constructor(
    { worker, settlements, claim, rescue = false }: ExchangeRequest,
    special: ReadonlySet<string>,
    words: EndWords,
  ) {
    const leases = settlements.map(words.leaseOf)
    const others = new Set(special)
    // One that is repeated tells what it has left.
    if (claim !== undefined) others.add(claim.token)
    leases.forEach((lease, i) => {
      const isOther = rescue || !words.isPlainEnd(settlements[i] as Settlement)
      if (lease !== undefined && isOther) others.add(lease.claim)
    })
    this.#worker = worker
    this.#words = words
    const ends: CountedEnd[] = []
    const seen = new Set<string>()
    this.#results = leases.map((lease, i) => {
      // Of one claim all or none, because a claim has one lease.
      if (lease === undefined || others.has(lease.claim)) return undefined
      // Of two for the same job the first one counts.
      const settlement = settlements[i] as Settlement
      const job = `${lease.seq} ${settlement.id}`
      if (seen.has(job)) return 'lost'
      seen.add(job)
      ends.push({ settlement, lease })
      return 'applied'
    })
    this.others = settlements.filter((_, i) => this.#results[i] === undefined)
    this.#ends = ends
    this.#alike = alike(ends)
  }

  get claims(): ReadonlySet<string> {
    return new Set(this.#ends.map(({ lease }) => lease.claim))
  }

  /** Numbers of the gates that are to be told. */
  gates(): Set<string> {
    return new Set(this.#alike.flatMap(({ lease }) => numbersIn(lease.note)))
  }

  /** Tells gates, leases and counts. */
  tell(tables: PagedTables, now: number): void {
    if (this.#ends.length === 0) return
    const worker = tables.workers.get(this.#worker)
    for (const { lease, settlement, seqs } of this.#alike) {
      const held = worker?.openLease(lease.claim)
      const kind = tables.kinds.byNum(lease.kind)
      const gates = numbersIn(lease.note).map((gate) => tables.books.gateAt(Number(gate)))
      // A gate that is gone has nothing to do with jobs that run.
      if (held === undefined || gates.includes(undefined)) throw new NotCounted()
      for (const seq of seqs) {
        if (held.lacks(seq)) throw new NotCounted()
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
    const startOf = (claim: string) => worker?.openLease(claim)?.at as number
    tables.ended = this.#words.written(this.#ends, this.#worker, startOf)
  }

  /** Of all settlements, in order. */
  settled(others: readonly SettleResult[]): SettleResult[] {
    let next = 0
    return this.#results.map((result) => result ?? others[next++] ?? 'lost')
  }
}

function alike(ends: readonly CountedEnd[]): Alike[] {
  const found = new Map<string, Alike>()
  for (const { lease, settlement } of ends) {
    const { seq, claim, kind, note } = lease
    const { excused } = settlement.outcome
    const name = `${kind} ${note} ${excused} ${isKept(settlement)} ${claim}`
    const same = found.get(name)
    if (same === undefined) found.set(name, { lease, settlement, seqs: [seq] })
    else same.seqs.push(seq)
  }
  return [...found.values()]
}

/** As it is written. */
function isKept({ outcome }: Settlement): boolean {
  return Math.round(outcome.retain) > 0
}

function numbersIn(note: string): string[] {
  return note === '' ? [] : note.split(':')
}
