/** Jobs that were started or moved by their places, and what claims have of jobs, however these came to them. */
import type { Lease } from '../../ledger/worker.js'
import type { PagedTables } from '../../page/tables.js'
import { ToldJobs } from '../told.js'
import type { Deeds } from './deeds.js'
import { type TicketRow, waitAt } from './head.js'

export function writeHeads({ heads }: PagedTables, leases: Leases, deeds: Deeds): void {
  const { started, lease, moved } = heads.changes()
  for (const { row, place, rank } of moved) {
    const { ticket, wait } = row as TicketRow
    deeds.check('waiting', ticket)
    if (place !== row.place) deeds.join(['call', 'ZREM', `place:${row.place}`], ticket)
    deeds.join(['enter', place], ticket, rank, waitAt(place, wait))
  }
  if (lease === undefined) return
  const byPlace = new Map<number, string[]>()
  for (const row of started as TicketRow[]) {
    const tickets = byPlace.get(row.place)
    if (tickets === undefined) byPlace.set(row.place, [row.ticket])
    else tickets.push(row.ticket)
  }
  for (const [place, tickets] of byPlace) {
    for (const ticket of tickets) {
      deeds.join(['start', place, lease.token], ticket)
      leases.see('', lease.token, ticket, lease)
    }
  }
  const tickets = [...byPlace.values()].flat()
  deeds.tells(([bodies, stories]) => heads.hear(new ToldJobs(tickets, bodies, stories)))
}

/** Which claims have been given jobs, and which have lost some. */
export class Leases {
  readonly #taken = new Map<string, { readonly lease: Lease; readonly tickets: string[] }>()
  readonly #dropped = new Map<string, number>()

  /** Tokens of its claim; '' for none. `lease`: what it is under now. */
  see(before: string, after: string, ticket: string, lease: Lease | undefined): void {
    if (before === after) return
    if (before !== '') this.#dropped.set(before, (this.#dropped.get(before) ?? 0) + 1)
    if (after === '') return
    const taken = this.#taken.get(after) ?? { lease: lease as Lease, tickets: [] }
    taken.tickets.push(ticket)
    this.#taken.set(after, taken)
  }

  write(deeds: Deeds): void {
    for (const [token, { lease, tickets }] of this.#taken) {
      const { worker, at } = lease
      const fields = ['worker', worker.id, 'at', at, 'left', tickets.length, 'tickets', tickets.join('\n')]
      deeds.call('HSET', `l:${token}`, ...fields)
      deeds.call('SADD', `w:${worker.id}`, token)
    }
    for (const [token, count] of this.#dropped) deeds.write('leaseLess', token, count)
  }
}
