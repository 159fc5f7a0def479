import type { FinalState } from '../../core/job.js'
import type { OrphanedJob, SweepReport, SweepRequest } from '../../core/store.js'
import type { GateRef } from '../../core/traffic/settings.js'
import type { Connection } from '../../databases/sqlite/connection.js'
import { leaseToken } from '../ledger/token.js'
import { makeForgetting } from './dedupe.js'
import type { Doom } from './doom.js'
import type { Families } from './family.js'
import { makeGuardForgetting, makeJobGuards } from './guard.js'
import type { Pending } from './pending.js'
import { only } from './positions.js'
import { type Finding, makeRepair } from './repair.js'
import type { ReadSchedules } from './schedule.js'
import { makeForgetDeath, type Remove } from './settle.js'
import type { SignalVerb } from './signal.js'
import { sweep as sql } from './sql.generated.js'
import { makeStaying } from './staying.js'
import { type FinishedRow, makeFindSurplus } from './surplus.js'
import { stateName, stateNumber, type Tables, unwinds } from './tables.js'
import type { Places, Traffic } from './traffic.js'
import type { Waiting } from './waiting.js'

export type Sweep = (request: SweepRequest) => Promise<SweepReport>

/** What one sweep did of each; a full limit says that there is more. */
interface Tidied {
  readonly promoted: number
  readonly pruned: number
  readonly forgotten: number
  /** Children of cancelled jobs. */
  readonly unwanted: number
}

const nothing: Tidied = { promoted: 0, pruned: 0, forgotten: 0, unwanted: 0 }

/** What a look before the lock has found to do. */
interface Found {
  readonly idleWorkers: readonly number[]
  readonly ahead: readonly GateRef[]
  readonly wrong: readonly Finding[]
}

interface DueRow {
  readonly seq: number
  readonly kind: number
  readonly state: number
}

interface OrphanRow {
  readonly seq: number
  readonly token: string
  readonly id: string
  readonly kind: number
  readonly attempt: number
  readonly crashes: number
  readonly cancel_reason: string | null
}

interface SweepParts {
  readonly pending: Pending
  readonly traffic: Traffic
  readonly places: Places
  readonly families: Families
  readonly doom: Doom
  readonly remove: Remove
  readonly readSchedules: ReadSchedules
  readonly waiting: Waiting
  readonly signal: SignalVerb
}

/** Looks before it locks: a sweep that finds nothing to do writes nothing. */
export function makeSweep(
  connection: Connection,
  tables: Tables,
  { pending, traffic, places, families, doom, remove, waiting, signal, readSchedules }: SweepParts,
): Sweep {
  const { db, tally, clock } = tables
  const due = db.prepare<[number, number], DueRow>(sql.due)
  const promoteOne = db.prepare(sql.promote)
  const nextDue = db.prepare<[], number | null>(sql.nextDue).pluck()
  const expired = db.prepare<[number, number, number], FinishedRow>(sql.expired)
  const kept = db.prepare<[string], number>(sql.kept).pluck()
  const lost = db.prepare<[number, number], { num: number; id: string }>(sql.lost)
  const orphans = db.prepare<[number, number], OrphanRow>(sql.orphans)
  const forgetWorker = db.prepare(sql.forgetWorker)
  const forgetDeath = makeForgetDeath(tables)
  const keys = makeForgetting(tables)
  const repair = makeRepair(tables, families, waiting)
  const guards = makeGuardForgetting(tables)
  const jobGuards = makeJobGuards(tables)
  const staying = makeStaying(tables, families)
  const findSurplus = makeFindSurplus(tables, staying)

  return async (request) => {
    const now = clock.now()
    const found = findOrphans(now, request.limit)
    const hasIdleGate = places.idleGates(now, 1).length > 0
    const isMiscounted = traffic.upkeep.miscounted().length > 0
    const ahead = traffic.upkeep.aheadOfClock(now)
    const wrong = repair.look()
    const work =
      isDue(now) ||
      hasExpired(now, request) ||
      found.idle.length > 0 ||
      hasIdleGate ||
      isMiscounted ||
      ahead.length > 0 ||
      wrong.length > 0 ||
      doom.isDue() ||
      keys.isDue(now) ||
      guards.isDue(now) ||
      signal.isSpreading() ||
      signal.hasExpired(now)
    const done = work
      ? await connection.write(() => tidy(request, { idleWorkers: found.idle, ahead, wrong }))
      : nothing
    const next = nextDue.get()
    const { promoted, pruned, forgotten, unwanted } = done
    const schedules = readSchedules.due(clock.now(), request.limit)
    return {
      promoted,
      pruned,
      orphans: found.jobs,
      schedules: schedules.due,
      nextDue: next === null || next === undefined ? undefined : Math.max(0, next - clock.now()),
      nextSlot: schedules.nextSlot,
      more: Math.max(promoted, pruned, forgotten, unwanted) >= request.limit || found.more || schedules.more,
    }
  }

  function isDue(now: number): boolean {
    return due.get(now, 1) !== undefined
  }

  function hasExpired(now: number, { keep, limit }: SweepRequest): boolean {
    return finished(keep).some(
      ([state, most]) =>
        expired.get(stateNumber[state], now, 1) !== undefined ||
        findSurplus(state, Math.min((kept.get(state) as number) - most, 1), limit).length > 0,
    )
  }

  function tidy(request: SweepRequest, { idleWorkers, ahead, wrong }: Found): Tidied {
    const now = clock.now()
    for (const num of idleWorkers) forgetWorker.run(num, num)
    traffic.upkeep.recount()
    traffic.upkeep.setBack(ahead, now)
    const forgotten = Math.max(
      keys.forget(now, request.limit),
      traffic.upkeep.forgetIdle(now, request.limit),
      guards.forget(now, request.limit),
      signal.forget(now, request.limit),
    )
    repair.mend(wrong, now)
    const unwanted = doom.carryOut(request.limit)
    const woken = signal.spread(now, request.limit)
    const promoted = woken + promote(now, request.limit - woken)
    return { promoted, pruned: prune(now, request), forgotten, unwanted }
  }

  function promote(now: number, limit: number): number {
    const rows = due.all(now, limit)
    for (const row of rows) {
      if (stateName(row.state) === 'blocked') {
        waiting.wake(row.seq, now)
        continue
      }
      const kind = tables.kind(row.kind)
      promoteOne.run(now, row.seq)
      tally.move(kind.id, stateName(row.state), 'pending', 1)
      pending.enter(kind, row.seq, stateName(row.state) === 'retrying')
    }
    return rows.length
  }

  /** By age, then by count: those closest to their expiry go first. */
  function prune(now: number, { limit, keep }: SweepRequest): number {
    let pruned = 0
    for (const [state, most] of finished(keep)) {
      const old = removeExpired(expired.all(stateNumber[state], now, limit - pruned), now)
      pruned += old
      const excess = Math.min((kept.get(state) as number) - old - most, limit - pruned)
      const surplus = findSurplus(state, excess, limit)
      for (const row of surplus) removeFinished(row)
      pruned += surplus.length
    }
    return pruned
  }

  /** Returns how many of them are gone. */
  function removeExpired(rows: readonly FinishedRow[], now: number): number {
    let removed = 0
    for (const row of rows) {
      if (staying.isNeeded(row)) {
        staying.postpone(row, now)
      } else {
        removeFinished(row)
        removed++
      }
    }
    return removed
  }

  function removeFinished(row: FinishedRow): void {
    jobGuards.gone(row.seq, stateName(row.state) as FinalState, tables.kind(row.kind))
    remove(only(row.seq))
    if (row.cause !== null) forgetDeath(row.cause)
    tally.add(row.kind, stateName(row.state), -1)
    tally.total(row.kind, 'pruned', 1)
  }

  /** Jobs of workers whose lease ran out, and such workers without any. */
  function findOrphans(now: number, limit: number): { jobs: OrphanedJob[]; idle: number[]; more: boolean } {
    const jobs: OrphanedJob[] = []
    const idle: number[] = []
    const workers = lost.all(now, limit)
    for (const worker of workers) {
      const rows = orphans.all(worker.num, limit - jobs.length)
      if (rows.length === 0 && jobs.length < limit) idle.push(worker.num)
      for (const row of rows) jobs.push(toOrphan(row, worker.id))
    }
    return { jobs, idle, more: jobs.length >= limit || workers.length >= limit }
  }

  function toOrphan(row: OrphanRow, worker: string): OrphanedJob {
    const kind = tables.kind(row.kind)
    return {
      id: row.id,
      token: leaseToken(row.id, row.seq, row.kind, row.token),
      name: kind.name,
      queue: kind.queue,
      lane: kind.lane,
      attempt: row.attempt + 1,
      worker,
      crashes: row.crashes,
      maxCrashes: kind.maxCrashes,
      cancelReason: row.cancel_reason ?? undefined,
      ...(unwinds(kind) && { unwinds: true }),
    }
  }
}

/** Cancelled jobs share the bound of completed ones. */
function finished(keep: SweepRequest['keep']): [FinalState, number][] {
  return [
    ['completed', keep.completed],
    ['cancelled', keep.completed],
    ['dead', keep.dead],
  ]
}
