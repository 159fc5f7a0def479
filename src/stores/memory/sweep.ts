import type { FinalState } from '../../core/job.js'
import type { OrphanedJob, SweepReport, SweepRequest } from '../../core/store.js'
import { forgetKeys } from './dedupe.js'
import { type Entry, storyOf, type Wake } from './entry.js'
import { cancelUnwanted } from './operate.js'
import { dueSchedules } from './schedule.js'
import { precedes, type Ranked } from './sorted.js'
import type { Tables } from './tables.js'
import type { Worker } from './worker.js'

export function sweep(tables: Tables, request: SweepRequest): SweepReport {
  const { limit } = request
  const now = tables.clock.now()
  const orphans = findOrphans(tables, now, limit)
  tables.flow.setBack(tables.flow.aheadOfClock(now), now)
  const forgotten = Math.max(
    forgetKeys(tables, now, limit),
    tables.flow.forgetIdle(now, limit),
    tables.guards.forget(now, limit),
  )
  const unwanted = cancelUnwanted(tables, limit, now)
  const promoted = promote(tables, now, limit)
  const pruned = prune(tables, now, request)
  const next = soonest(tables)
  const schedules = dueSchedules(tables, now, limit)
  return {
    promoted,
    pruned,
    orphans,
    schedules: schedules.due,
    nextDue: next === undefined ? undefined : Math.max(0, next.rank - now),
    nextSlot: schedules.nextSlot,
    more: Math.max(promoted, pruned, orphans.length, forgotten, unwanted) >= limit || schedules.more,
  }
}

/** Names the jobs of workers whose lease ran out, and forgets such workers without any. */
function findOrphans(tables: Tables, now: number, limit: number): OrphanedJob[] {
  const orphans: OrphanedJob[] = []
  for (const worker of tables.workers.values()) {
    if (worker.expiresAt > now) continue
    const held = worker.held()
    if (held.length === 0) tables.workers.delete(worker.id)
    for (const entry of held.slice(0, limit - orphans.length)) orphans.push(toOrphan(entry, worker))
  }
  return orphans
}

function toOrphan({ job, lease, story }: Entry, worker: Worker): OrphanedJob {
  return {
    id: job.id,
    token: lease?.token ?? '',
    name: job.name,
    queue: job.queue,
    lane: job.lane,
    attempt: (story?.attempt ?? 0) + 1,
    worker: worker.id,
    crashes: story?.crashes ?? 0,
    maxCrashes: job.maxCrashes,
    cancelReason: story?.cancelReason,
  }
}

function promote(tables: Tables, now: number, limit: number): number {
  let promoted = 0
  for (; promoted < limit; promoted++) {
    const next = soonest(tables)
    if (next === undefined || next.rank > now) break
    const entry = 'entry' in next ? next.entry : next
    tables.leave(entry)
    storyOf(entry).readyAt = now
    tables.enter(entry, 'pending', 0)
  }
  return promoted
}

/** The job that is due first. */
function soonest({ shelves, wakes }: Tables): Entry | Wake | undefined {
  return first(first(shelves.scheduled.first, shelves.retrying.first), wakes.first)
}

function first<A extends Ranked, B extends Ranked>(a: A | undefined, b: B | undefined): A | B | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return precedes(b, a) ? b : a
}

/** By age, then by count: those closest to their expiry go first. */
function prune(tables: Tables, now: number, { limit, keep }: SweepRequest): number {
  let pruned = 0
  for (const [state, most] of finished(keep)) {
    const shelf = tables.shelves[state]
    for (let entry = shelf.first; pruned < limit && entry !== undefined; pruned++) {
      if (entry.rank > now && shelf.size <= most) break
      tables.leave(entry)
      tables.jobs.delete(entry.job.id)
      entry.kind.totals.pruned++
      entry = shelf.first
    }
  }
  return pruned
}

/** Cancelled jobs share the bound of completed ones. */
function finished(keep: SweepRequest['keep']): [FinalState, number][] {
  return [
    ['completed', keep.completed],
    ['cancelled', keep.completed],
    ['dead', keep.dead],
  ]
}
