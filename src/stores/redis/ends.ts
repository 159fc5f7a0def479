import type { Settlement } from '../../core/store.js'
import type { EndWords } from '../page/counted.js'
import { handleOf, positionDigits, seqIn } from './ticket.js'
import { readTokenEnd, tokens } from './token.js'

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
  leaseOf: ({ id, token }) => tokens.read(id, token),
  isPlainEnd,
  written: (ends, worker): CountedEnds => ({
    worker,
    groups: endsOf(ends.map(({ settlement }) => settlement)).groups,
  }),
}

/** What the desk lets the server end. */
export interface CountedEnds {
  readonly worker: string
  readonly groups: readonly EndGroup[]
}

export function endsOf(settlements: readonly Settlement[]): Ends {
  const groups: EndGroup[] = []
  const known = new Map<string, EndGroup | undefined>()
  const seen = new Set<string>()
  let group: EndGroup | undefined
  let lastEnd: string | undefined
  for (let place = 0; place < settlements.length; place++) {
    const { id, token, outcome } = settlements[place] as Settlement
    const ticket = token.slice(0, positionDigits) + handleOf(id)
    // Of two for the same job the first one counts.
    if (Number.isNaN(seqIn(token)) || seen.has(ticket)) continue
    const end = token.slice(positionDigits)
    const retain = Math.round(outcome.retain)
    // Most belong to the same as the one before.
    if (end !== lastEnd || group?.retain !== retain) {
      group = known.get(end)
      if (group?.retain !== retain) group = groupFor(end, retain, groups)
      known.set(end, group)
    }
    if (group === undefined) continue
    lastEnd = end
    seen.add(ticket)
    group.tickets.push(ticket)
    group.results.push(outcome.result ?? '')
    group.places.push(place)
    if (outcome.result !== undefined) group.hasResults = true
  }
  return { groups, places: groups.flatMap(({ places }) => places) }
}

/** `end`: of a token. Undefined if that is none. */
function groupFor(end: string, retain: number, groups: EndGroup[]): EndGroup | undefined {
  const lease = readTokenEnd(end)
  if (lease === undefined) return undefined
  const { claim, kind } = lease
  const known = groups.find((one) => one.claim === claim && one.kind === kind && one.retain === retain)
  if (known !== undefined) return known
  const group = { claim, kind, retain, tickets: [], results: [], places: [], hasResults: false }
  groups.push(group)
  return group
}

/** As exchange.lua reads them. The result of a child is kept with its parent, and only the server knows which are children. */
export function argsOf({ groups }: Ends): (string | number)[] {
  const args: (string | number)[] = []
  for (const { claim, kind, retain, tickets, results, hasResults } of groups) {
    const length = lengthOf(tickets)
    args.push(claim, kind, retain, hasResults ? 1 : 0, tickets.length, length)
    // One text costs less than many, here and on the way.
    if (length > 0) args.push(tickets.join(''))
    else for (const ticket of tickets) args.push(ticket)
    if (hasResults) for (const result of results) args.push(result)
  }
  return args
}

/** Of each, if it is the same; otherwise 0. */
function lengthOf(tickets: readonly string[]): number {
  const length = tickets[0]?.length ?? 0
  return tickets.every((ticket) => ticket.length === length) ? length : 0
}

/** A result is kept only with its job. */
export function tellsResults({ retain, hasResults }: EndGroup): boolean {
  return hasResults && retain > 0
}
