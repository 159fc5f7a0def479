import { mayGo, staysUntil } from '../../core/family.js'
import type { FinalState } from '../../core/job.js'
import type { Entry } from './entry.js'
import { familyOf } from './family.js'
import type { Tables } from './tables.js'

/** Whether an operator may remove it. */
export function mayBeRemoved(tables: Tables, entry: Entry): boolean {
  return isFree(tables, entry, 'operator')
}

/** Whether it is kept until its flow is over. */
export function isNeeded(tables: Tables, entry: Entry): boolean {
  return !isFree(tables, entry, 'retention')
}

/** Its retention is over, and its flow is not. */
export function postpone(tables: Tables, entry: Entry, now: number): void {
  const shelf = tables.shelves[entry.state as FinalState]
  shelf.delete(entry)
  entry.rank = staysUntil(now)
  shelf.add(entry)
}

function isFree(tables: Tables, entry: Entry, by: Parameters<typeof mayGo>[1]): boolean {
  if (entry.job.family?.stays !== true) return true
  const last = tables.jobs.get(familyOf(tables, entry)?.flow ?? '')
  return mayGo(last === entry ? undefined : last?.state, by)
}
