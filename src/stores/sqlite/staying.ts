import { mayGo, staysUntil } from '../../core/family.js'
import type { Families } from './family.js'
import { sweep as sql } from './sql.generated.js'
import { stateName, stays, type Tables } from './tables.js'

/** Jobs that are kept until their flow is over, inside the current transaction. */
export interface Staying {
  /** Whether an operator may remove it. */
  mayGo(job: StoredJob): boolean
  /** Of one whose retention is over: whether it is kept for longer. */
  goesOn(job: StoredJob, now: number): boolean
}

interface StoredJob {
  readonly seq: number
  readonly kind: number
}

export function makeStaying(tables: Tables, families: Families): Staying {
  const { db } = tables
  const lastOf = db.prepare<[string, number], number>(sql.lastOf).pluck()
  const expiresAt = db.prepare<[number], number>(sql.expiresAt).pluck()
  const postpone = db.prepare(sql.postpone)

  return {
    mayGo: (job) => isFree(job, 'operator'),
    goesOn(job, now) {
      if (isFree(job, 'retention')) return false
      postpone.run(staysUntil(expiresAt.get(job.seq) as number, now), job.seq)
      return true
    },
  }

  function isFree({ seq, kind }: StoredJob, by: Parameters<typeof mayGo>[1]): boolean {
    if (!stays(tables.kind(kind))) return true
    const flow = families.at(seq)?.flow
    const last = flow === undefined ? undefined : lastOf.get(flow, seq)
    return mayGo(last === undefined ? undefined : stateName(last), by)
  }
}
