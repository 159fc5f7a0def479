import type { Settlement, SettleResult } from '../../core/store.js'
import { type Lease, readToken } from '../ledger/token.js'
import { separator } from './literal.js'

/** Between the results of runs. */
const groupSeparator = '\x1d'

/** Results of one run together; they are read as one text. */
const mostResultText = 256 * 1024

/** Whether nothing but that it completed has to be told of it. */
export function isPlainEnd({ outcome, inserts, report }: Settlement): boolean {
  return (
    outcome.to === 'completed' &&
    !outcome.idle &&
    outcome.hold === 0 &&
    inserts === undefined &&
    report === undefined &&
    !(outcome.result?.includes(separator) || outcome.result?.includes(groupSeparator))
  )
}

/** Settlements as exchange.sql wants them. */
export interface Ends {
  readonly tokens: readonly string[]
  readonly kinds: readonly number[]
  readonly settled: readonly number[]
  readonly results: string | null
  /** By settlement; undefined for a token that was made for another job. */
  readonly leases: readonly (Lease | undefined)[]
}

interface End {
  readonly lease: Lease
  readonly retain: number
  readonly result: string | undefined
}

export function leasesOf(settlements: readonly Settlement[]): (Lease | undefined)[] {
  return settlements.map(({ id, token }) => readToken(id, token))
}

export function endsOf(settlements: readonly Settlement[], leases = leasesOf(settlements)): Ends {
  const ends: End[] = []
  leases.forEach((lease, i) => {
    const { outcome } = settlements[i] as Settlement
    if (lease !== undefined) ends.push({ lease, retain: Math.round(outcome.retain), result: outcome.result })
  })
  const tokens = [...new Set(ends.map(({ lease }) => lease.claim))].sort()
  const of = new Map(tokens.map((token, i) => [token, i + 1]))
  const place = ({ lease }: End) => of.get(lease.claim) as number
  ends.sort((a, b) => place(a) - place(b) || a.lease.seq - b.lease.seq)
  return { tokens, kinds: [...new Set(ends.map(({ lease }) => lease.kind))], ...ranges(ends, place), leases }
}

/** Those that follow each other and end alike become one entry. */
function ranges(ends: readonly End[], place: (end: End) => number): Pick<Ends, 'settled' | 'results'> {
  const settled: number[] = []
  const groups: string[] = []
  let results: string[] = []
  let size = 0
  let last: End | undefined
  for (const end of ends) {
    const { lease, retain, result = '' } = end
    if (last !== undefined && last.lease.claim === lease.claim && last.lease.seq === lease.seq) continue
    const goesOn =
      last !== undefined &&
      last.lease.claim === lease.claim &&
      last.lease.seq === lease.seq - 1 &&
      last.retain === retain &&
      size + result.length <= mostResultText
    if (goesOn) settled[settled.length - 3] = lease.seq
    else {
      if (last !== undefined) groups.push(joined(results))
      results = []
      size = 0
      settled.push(place(end), lease.seq, lease.seq, completedOutcome, retain)
    }
    results.push(result)
    size += result.length
    last = end
  }
  if (last !== undefined) groups.push(joined(results))
  const has = groups.some((group) => group !== '')
  return { settled, results: has ? groups.join(groupSeparator) : null }
}

const completedOutcome = 5

function joined(results: readonly string[]): string {
  return results.some((result) => result !== '') ? results.join(separator) : ''
}

export function settledBy(
  settlements: readonly Settlement[],
  { tokens, leases }: Ends,
  lost: string | null,
): SettleResult[] {
  const gone = new Set(lost?.split(','))
  const seen = new Set<string>()
  return settlements.map((_, i) => {
    const lease = leases[i]
    if (lease === undefined) return 'lost'
    const name = `${tokens.indexOf(lease.claim) + 1}:${lease.seq}`
    // Of two for the same job the first one counts.
    if (gone.has(name) || seen.has(name)) return 'lost'
    seen.add(name)
    return 'applied'
  })
}
