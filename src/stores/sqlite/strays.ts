import { bounds } from '../../core/bounds.js'
import type { ExtendRequest, Stray } from '../../core/store.js'
import { leaseToken, readToken } from '../ledger/token.js'
import { extend as sql } from './sql.generated.js'
import type { Tables } from './tables.js'

export type FindStrays = (worker: number, request: ExtendRequest, now: number) => Stray[]

type LeaseRow = [seq: number, claim: string]

/** What is under the worker's lease though it does not have it. */
export function makeFindStrays(tables: Tables): FindStrays {
  const heldSince = tables.db.prepare<[number, number], LeaseRow>(sql.heldSince).raw()
  const stray = tables.db.prepare<[number], { id: string; kind: number }>(sql.stray)

  return (worker, { lease: duration, held, inventory }, now) => {
    if (inventory === undefined) return []
    const known = new Set<string>()
    for (const { id, token } of [...held, ...inventory.leaving]) {
      const lease = readToken(id, token)
      if (lease !== undefined) known.add(nameOf(lease.seq, lease.claim))
    }
    return heldSince
      .all(worker, now - duration)
      .filter(([seq, claim]) => !inventory.claiming.includes(claim) && !known.has(nameOf(seq, claim)))
      .slice(0, bounds.batch)
      .flatMap(toStray)
  }

  function toStray([seq, claim]: LeaseRow): Stray[] {
    const row = stray.get(seq)
    if (row === undefined) return []
    const { name, queue } = tables.kind(row.kind)
    return [{ id: row.id, token: leaseToken(row.id, seq, row.kind, claim), claim, name, queue }]
  }
}

function nameOf(seq: number, claim: string): string {
  return `${seq}.${claim}`
}
