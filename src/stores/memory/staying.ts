import { mayGo, staysUntil } from '../../core/family.js'
import type { FinalState } from '../../core/job.js'
import type { Entry } from './entry.js'
import { familyOf } from './family.js'
import type { Tables } from './tables.js'

/** Whether an operator may remove it. */
export function mayBeRemoved(tables: Tables, entry: Entry): boolean {
  return isFree(tables, entry, 'operator')
}

/** Of one whose retention is over: whether it is kept until its flow is. */
export function goesOn(tables: Tables, entry: Entry, now: number): boolean {
  if (isFree(tables, entry, 'retention')) return false
  const shelf = tables.shelves[entry.state as FinalState]
  shelf.delete(entry)
  entry.rank = staysUntil(entry.rank, now)
  shelf.add(entry)
  return true
}

function isFree(tables: Tables, entry: Entry, by: Parameters<typeof mayGo>[1]): boolean {
  if (entry.job.family?.stays !== true) return true
  const last = tables.jobs.get(familyOf(tables, entry)?.flow ?? '')
  return mayGo(last === entry ? undefined : last?.state, by)
}
