import type { FinalState } from '../../core/job.js'
import type { OrphanedJob, SweepReport, SweepRequest } from '../../core/store.js'
import { forgetKeys } from './dedupe.js'
import type { Entry } from './entry.js'
import { letGoOfGuard } from './guard.js'
import { cancelUnwanted } from './operate.js'
import { dueSchedules } from './schedule.js'
import { precedes, start } from './shelf.js'
import { spread } from './signal.js'
import { isNeeded, postpone } from './staying.js'
import type { Tables } from './tables.js'
import { wake } from './waiting.js'
import type { Lease, Worker } from './worker.js'

/** What a sweep reports that had nothing to do. */
export const nothingSwept: SweepReport = {
  promoted: 0,
  pruned: 0,
  orphans: [],
  schedules: [],
  nextDue: undefined,
  nextSlot: undefined,
  more: false,
}

/** `before`: finished jobs that the engine has forgotten already. */
export function sweep(tables: Tables, request: SweepRequest, before = 0): SweepReport {
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
  const pruned = before + prune(tables, now, { ...request, limit: limit - before })
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
  for (const worker of tables.workers.lapsed(now)) {
    if (orphans.length >= limit) break
    const held = worker.held(limit - orphans.length)
    if (held.length === 0) tables.workers.forget(worker)
    for (const entry of held) orphans.push(toOrphan(tables, entry, worker))
  }
  return orphans
}

function toOrphan(tables: Tables, entry: Entry, worker: Worker): OrphanedJob {
  const { job, lease, story } = entry
  return {
    id: job.id,
    token: tables.tokenOf(entry, lease as Lease),
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
  const due = [...dueJobs(tables, now, limit)].sort((a, b) => (precedes(a, b) ? -1 : 1)).slice(0, limit)
  tables.each(due, (entry) => wake(tables, entry, now))
  return due.length
}

function* dueJobs({ shelves }: Tables, now: number, limit: number): Generator<Entry, void> {
  for (const shelf of [shelves.scheduled, shelves.retrying, shelves.blocked]) {
    let found = 0
    for (const entry of shelf.after(start.rank, start.seq, limit)) {
      if (entry.rank > now || found++ >= limit) break
      yield entry
    }
  }
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
    const excess = Math.min(tables.countOf(state) - most, limit - pruned)
    const surplus = tables.surplus.find(tables, state, excess, limit)
    for (const entry of surplus) forget(tables, entry)
    pruned += surplus.length
  }
  return pruned
}

function pruneExpired(tables: Tables, state: FinalState, now: number, limit: number): number {
  const expired: Entry[] = []
  for (const entry of tables.shelves[state].after(start.rank, start.seq, limit)) {
    if (entry.rank > now || expired.length >= limit) break
    expired.push(entry)
  }
  let pruned = 0
  tables.each(expired, (entry) => {
    if (isNeeded(tables, entry)) {
      postpone(tables, entry, now)
    } else {
      forget(tables, entry)
      pruned++
    }
  })
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
