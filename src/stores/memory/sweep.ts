import type { FinalState } from '../../core/job.js'
import type { OrphanedJob, SweepReport, SweepRequest } from '../../core/store.js'
import { forgetKeys } from './dedupe.js'
import type { Entry } from './entry.js'
import { letGoOfGuard } from './guard.js'
import { cancelUnwanted } from './operate.js'
import { dueSchedules } from './schedule.js'
import { spread } from './signal.js'
import { precedes } from './sorted.js'
import { isNeeded, postpone } from './staying.js'
import type { Tables } from './tables.js'
import { wake } from './waiting.js'
import type { Worker } from './worker.js'

export function sweep(tables: Tables, request: SweepRequest): SweepReport {
  const { limit } = request
  const now = tables.clock.now()
  const orphans = findOrphans(tables, now, limit)
  tables.traffic.upkeep.setBack(tables.traffic.upkeep.aheadOfClock(now), now)
  const forgotten = Math.max(
    forgetKeys(tables, now, limit),
    tables.traffic.upkeep.forgetIdle(now, limit),
    tables.guards.forget(now, limit),
    tables.mailbox.forget(now, limit),
  )
  const unwanted = cancelUnwanted(tables, limit, now)
  const woken = spread(tables, now, limit)
  const promoted = woken + promote(tables, now, limit - woken)
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
    ...(job.unwinds === true && { unwinds: true }),
  }
}

function promote(tables: Tables, now: number, limit: number): number {
  let promoted = 0
  for (; promoted < limit; promoted++) {
    const entry = soonest(tables)
    if (entry === undefined || entry.rank > now) break
    wake(tables, entry, now)
  }
  return promoted
}

/** The job that is due first. */
function soonest({ shelves }: Tables): Entry | undefined {
  let soonest: Entry | undefined
  for (const { first } of [shelves.scheduled, shelves.retrying, shelves.blocked]) {
    if (first === undefined || first.rank === Number.POSITIVE_INFINITY) continue
    if (soonest === undefined || precedes(first, soonest)) soonest = first
  }
  return soonest
}

/** By age, then by count: those closest to their expiry go first. */
function prune(tables: Tables, now: number, { limit, keep }: SweepRequest): number {
  let pruned = 0
  for (const [state, most] of finished(keep)) {
    pruned += pruneExpired(tables, state, now, limit - pruned)
    const excess = Math.min(tables.shelves[state].size - most, limit - pruned)
    const surplus = tables.surplus.find(tables, state, excess, limit)
    for (const entry of surplus) forget(tables, entry)
    pruned += surplus.length
  }
  return pruned
}

function pruneExpired(tables: Tables, state: FinalState, now: number, limit: number): number {
  const shelf = tables.shelves[state]
  let pruned = 0
  for (let looked = 0; looked < limit; looked++) {
    const entry = shelf.first
    if (entry === undefined || entry.rank > now) break
    if (isNeeded(tables, entry)) {
      postpone(tables, entry, now)
    } else {
      forget(tables, entry)
      pruned++
    }
  }
  return pruned
}

function forget(tables: Tables, entry: Entry): void {
  letGoOfGuard(tables, entry)
  tables.leave(entry)
  tables.jobs.delete(entry.job.id)
  tables.doomed.delete(entry)
  entry.kind.totals.pruned++
}

/** Cancelled jobs share the bound of completed ones. */
function finished(keep: SweepRequest['keep']): [FinalState, number][] {
  return [
    ['completed', keep.completed],
    ['cancelled', keep.completed],
    ['dead', keep.dead],
  ]
}
