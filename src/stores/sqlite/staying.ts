import { mayGo, staysUntil } from '../../core/family.js'
import type { Families } from './family.js'
import { sweep as sql } from './sql.generated.js'
import { stateName, stays, type Tables } from './tables.js'

/** Jobs that are kept until their flow is over, inside the current transaction. */
export interface Staying {
  /** Whether an operator may remove it. */
  mayGo(job: StoredJob): boolean
  /** Whether it is kept until its flow is over. */
  isNeeded(job: StoredJob): boolean
  /** Its retention is over, and its flow is not. */
  postpone(job: StoredJob, now: number): void
}

interface StoredJob {
  readonly seq: number
  readonly kind: number
}

export function makeStaying(tables: Tables, families: Families): Staying {
  const { db } = tables
  const lastOf = db.prepare<[string, number], number>(sql.lastOf).pluck()
  const postpone = db.prepare(sql.postpone)

  return {
    mayGo: (job) => isFree(job, 'operator'),
    isNeeded: (job) => !isFree(job, 'retention'),
    postpone: ({ seq }, now) => void postpone.run(staysUntil(now), seq),
  }

  function isFree({ seq, kind }: StoredJob, by: Parameters<typeof mayGo>[1]): boolean {
    if (!stays(tables.kind(kind))) return true
    const flow = families.at(seq)?.flow
    const last = flow === undefined ? undefined : lastOf.get(flow, seq)
    return mayGo(last === undefined ? undefined : stateName(last), by)
  }
}
