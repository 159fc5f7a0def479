import type { Settlement, SettleResult } from '../../core/store.js'
import { type Lease, readToken } from '../ledger/token.js'
import type { EndWords } from '../page/counted.js'
import { separator } from '../page/separator.js'

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

/** What the server ends by itself, and when its claims began. */
export interface CountedEnds extends Pick<Ends, 'settled' | 'results'> {
  readonly starts: readonly number[]
}

interface End {
  /** Of its claim among the tokens, from 1. */
  readonly of: number
  readonly seq: number
  readonly retain: number
  readonly result: string
}

function leaseOf({ id, token }: Settlement): Lease | undefined {
  return readToken(id, token)
}

/** For the desk. */
export const endWords: EndWords = {
  leaseOf,
  isPlainEnd,
  written(ends, _worker, startOf): CountedEnds {
    const { tokens, settled, results } = endsOf(
      ends.map(({ settlement }) => settlement),
      ends.map(({ lease }) => lease),
    )
    return { settled, results, starts: tokens.map(startOf) }
  },
}

export function endsOf(
  settlements: readonly Settlement[],
  leases: readonly (Lease | undefined)[] = settlements.map(leaseOf),
): Ends {
  const claims = new Set<string>()
  const kinds = new Set<number>()
  for (const lease of leases) {
    if (lease === undefined) continue
    claims.add(lease.claim)
    kinds.add(lease.kind)
  }
  const tokens = [...claims].sort()
  const places = new Map(tokens.map((token, i) => [token, i + 1]))
  const ends: End[] = []
  leases.forEach((lease, i) => {
    if (lease === undefined) return
    const { retain, result = '' } = (settlements[i] as Settlement).outcome
    ends.push({ of: places.get(lease.claim) as number, seq: lease.seq, retain: Math.round(retain), result })
  })
  ends.sort((a, b) => a.of - b.of || a.seq - b.seq)
  return { tokens, kinds: [...kinds], ...ranges(ends), leases }
}

/** Those that follow each other and end alike become one entry. */
function ranges(ends: readonly End[]): Pick<Ends, 'settled' | 'results'> {
  const settled: number[] = []
  const groups: string[] = []
  let results: string[] = []
  let size = 0
  let last: End | undefined
  for (const end of ends) {
    const { of, seq, retain, result } = end
    if (last?.of === of && last.seq === seq) continue
    const goesOn =
      last?.of === of &&
      last.seq === seq - 1 &&
      last.retain === retain &&
      size + result.length <= mostResultText
    if (goesOn) settled[settled.length - 3] = seq
    else {
      if (last !== undefined) groups.push(joined(results))
      results = []
      size = 0
      settled.push(of, seq, seq, completedOutcome, retain)
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

export function settledBy({ tokens, leases }: Ends, lost: string | null): SettleResult[] {
  const gone = new Set(lost?.split(','))
  const seen = new Set<number>()
  return leases.map((lease) => {
    if (lease === undefined) return 'lost'
    if (gone.size > 0 && gone.has(`${tokens.indexOf(lease.claim) + 1}:${lease.seq}`)) return 'lost'
    // Of two for the same job the first one counts.
    if (seen.has(lease.seq)) return 'lost'
    seen.add(lease.seq)
    return 'applied'
  })
}
