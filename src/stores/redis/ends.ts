import type { Settlement } from '../../core/store.js'
import { type Lease, readToken } from '../ledger/token.js'
import type { EndWords } from '../page/counted.js'
import { ticketOf } from './ticket.js'

/** Whether nothing but that it completed has to be told of it. */
export function isPlainEnd({ outcome, inserts, report }: Settlement): boolean {
  return (
    outcome.to === 'completed' &&
    !outcome.idle &&
    outcome.hold === 0 &&
    inserts === undefined &&
    report === undefined
  )
}

/** Of one claim, one kind and kept alike. */
export interface EndGroup {
  readonly claim: string
  readonly kind: number
  readonly retain: number
  readonly tickets: string[]
  readonly results: string[]
  readonly places: number[]
  hasResults: boolean
}

/** Settlements as the scripts want them. */
export interface Ends {
  readonly groups: readonly EndGroup[]
  /** Which settlement each is; those that are missing are lost. */
  readonly places: readonly number[]
}

/** For the desk. */
export const endWords: EndWords = {
  isPlainEnd,
  written: (ends, worker): CountedEnds => ({
    worker,
    groups: endsOf(
      ends.map(({ settlement }) => settlement),
      ends.map(({ lease }) => lease),
    ).groups,
  }),
}

/** What the desk lets the server end. */
export interface CountedEnds {
  readonly worker: string
  readonly groups: readonly EndGroup[]
}

function leasesOf(settlements: readonly Settlement[]): (Lease | undefined)[] {
  return settlements.map(({ id, token }) => readToken(id, token))
}

export function endsOf(
  settlements: readonly Settlement[],
  leases: readonly (Lease | undefined)[] = leasesOf(settlements),
): Ends {
  const groups: EndGroup[] = []
  const seen = new Set<number>()
  let group: EndGroup | undefined
  for (let place = 0; place < settlements.length; place++) {
    const { id, outcome } = settlements[place] as Settlement
    const lease = leases[place]
    // Of two for the same job the first one counts.
    if (lease === undefined || seen.has(lease.seq)) continue
    seen.add(lease.seq)
    const { claim, kind, seq } = lease
    const retain = Math.round(outcome.retain)
    // Most belong to the same as the one before.
    if (group?.claim !== claim || group.kind !== kind || group.retain !== retain) {
      group = groups.find((one) => one.claim === claim && one.kind === kind && one.retain === retain)
      if (group === undefined) {
        group = { claim, kind, retain, tickets: [], results: [], places: [], hasResults: false }
        groups.push(group)
      }
    }
    group.tickets.push(ticketOf(seq, id))
    group.results.push(outcome.result ?? '')
    group.places.push(place)
    if (outcome.result !== undefined) group.hasResults = true
  }
  return { groups, places: groups.flatMap(({ places }) => places) }
}

/** As exchange.lua reads them. The result of a child is kept with its parent, and only the server knows which are children. */
export function argsOf({ claim, kind, retain, tickets, results, hasResults }: EndGroup): (string | number)[] {
  const head = [claim, kind, retain, hasResults ? 1 : 0, tickets.length]
  return hasResults ? [...head, ...tickets, ...results] : [...head, ...tickets]
}

/** A result is kept only with its job. */
export function tellsResults({ retain, hasResults }: EndGroup): boolean {
  return hasResults && retain > 0
}
