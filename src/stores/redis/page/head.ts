import type { HeadRow } from '../../page/heads.js'
import { seqIn } from '../ticket.js'

/** A job that waits, with what its place is known by. */
export interface TicketRow extends HeadRow {
  readonly ticket: string
  readonly wait: string
}

export function readHeads(
  place: number,
  tickets: readonly string[],
  turns: readonly string[],
  waits: readonly string[],
): TicketRow[] {
  let last = { wait: '', kind: 0, how: '' }
  return tickets.map((ticket, i) => {
    const wait = waits[i] as string
    // Many are alike.
    if (wait !== last.wait) last = { wait, ...readWait(wait) }
    return { seq: seqIn(ticket), rank: Number(turns[i]), kind: last.kind, place, how: last.how, ticket, wait }
  })
}

function readWait(wait: string): { kind: number; how: string } {
  const [, kind, gated, , gates = ''] = wait.split(';')
  return { kind: Number(kind), how: gates === '' ? `${gated}` : `${gated}:${gates}` }
}

/** Numbers of its gates, by colons. */
export function gatesIn(wait: string): string {
  return wait.slice(wait.lastIndexOf(';') + 1)
}

/** The same where it waits for something else. */
export function waitAt(place: number, wait: string): string {
  return `${place}${wait.slice(wait.indexOf(';'))}`
}
