import type { Settlement } from '../../core/store.js'
import { readToken } from '../ledger/token.js'
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

interface Group {
  readonly claim: string
  readonly kind: number
  readonly retain: number
  readonly tickets: (string | number)[]
  readonly places: number[]
}

/** Settlements as exchange.lua wants them. */
export interface Ends {
  readonly args: readonly (string | number)[]
  /** Which settlement each is; those that are missing are lost. */
  readonly places: readonly number[]
}

export function endsOf(settlements: readonly Settlement[]): Ends {
  const groups = new Map<string, Group>()
  const seen = new Set<number>()
  settlements.forEach(({ id, token, outcome }, place) => {
    const lease = readToken(id, token)
    // Of two for the same job the first one counts.
    if (lease === undefined || seen.has(lease.seq)) return
    seen.add(lease.seq)
    const { claim, kind, seq } = lease
    const retain = Math.round(outcome.retain)
    const name = `${claim} ${kind} ${retain}`
    let group = groups.get(name)
    if (group === undefined) {
      group = { claim, kind, retain, tickets: [], places: [] }
      groups.set(name, group)
    }
    group.tickets.push(ticketOf(seq, id), outcome.result ?? '')
    group.places.push(place)
  })
  const args: (string | number)[] = []
  const places: number[] = []
  for (const group of groups.values()) {
    args.push(group.claim, group.kind, group.retain, group.places.length, ...group.tickets)
    places.push(...group.places)
  }
  return { args, places }
}
