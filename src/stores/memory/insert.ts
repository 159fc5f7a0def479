import type { Overflow } from '../../core/flow/depth.js'
import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { dedupe, holdKey } from './dedupe.js'
import { Doors } from './doors.js'
import type { Tables } from './tables.js'

/** Adds jobs. A job whose id exists is left as it stands. The caller has asked for room. */
export function insert(tables: Tables, jobs: readonly NewJob[], now: number): InsertResult[] {
  const doors = new Doors(tables)
  const results = jobs.map((job) => insertOne(tables, job, doors, now))
  doors.close()
  return results
}

/** Adds what a handler added: its settlement is not to fail because a queue is full. */
export function insertFromHandler(tables: Tables, jobs: readonly NewJob[], now: number): void {
  for (const job of jobs) insertOne(tables, job, undefined, now)
}

function insertOne(tables: Tables, job: NewJob, doors: Doors | undefined, now: number): InsertResult {
  const standing = tables.jobs.get(job.id)
  if (standing !== undefined) return { status: 'duplicate', state: standing.state }
  const verdict = job.dedupe === undefined ? undefined : dedupe(tables, job, job.dedupe, now)
  if (verdict !== undefined && 'status' in verdict) return verdict
  const dueAt = (job.runAt ?? now + job.delay) + (verdict?.delay ?? 0)
  if (dueAt > now) return add(tables, job, dueAt, now)

  const door = doors?.of(job.queue)
  const admission = door?.admit(job.lane)
  if (admission === undefined || admission.verdict === 'take') return add(tables, job, now, now)
  if (admission.verdict === 'full') return refusal('full', admission)
  const { totals } = tables.kinds.of(job)
  const defer = door?.policy.defer ?? 0
  if (defer === 0) {
    totals.shed++
    return refusal('shed', admission)
  }
  totals.deferred++
  add(tables, job, now + defer, now)
  return { status: 'deferred', state: 'scheduled' }
}

function add(tables: Tables, job: NewJob, dueAt: number, now: number): InsertResult {
  const entry = tables.add(job, now)
  entry.kind.totals.enqueued++
  if (job.dedupe !== undefined) holdKey(tables, job, job.dedupe, now)
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

function refusal(status: 'shed' | 'full', { depth, limit, wait }: Overflow): InsertResult {
  return { status, state: undefined, overflow: { depth, limit, wait } }
}
