import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { Tables } from './tables.js'

/** Adds jobs. A job whose id exists is left as it stands. The caller has asked for room. */
export function insert(tables: Tables, jobs: readonly NewJob[], now: number): InsertResult[] {
  const results: InsertResult[] = []
  for (const job of jobs) results.push(insertOne(tables, job, now))
  return results
}

function insertOne(tables: Tables, job: NewJob, now: number): InsertResult {
  const standing = tables.jobs.get(job.id)
  if (standing !== undefined) return { status: 'duplicate', state: standing.state }
  const entry = tables.add(job, now)
  entry.kind.totals.enqueued++
  const dueAt = job.runAt ?? now + job.delay
  if (dueAt > now) {
    tables.enter(entry, 'scheduled', dueAt)
    tables.signals.due(dueAt - now)
    return insertedScheduled
  }
  tables.enter(entry, 'pending', 0)
  return insertedPending
}

const insertedPending: InsertResult = { status: 'inserted', state: 'pending' }
const insertedScheduled: InsertResult = { status: 'inserted', state: 'scheduled' }
