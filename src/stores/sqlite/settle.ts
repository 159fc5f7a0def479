import { bounds } from '../../core/bounds.js'
import { shortFailure } from '../../core/failure.js'
import { bringsInserts, cancelledFor, diesCompensated, diesOfChild, staying } from '../../core/family.js'
import { type Failure, isFinal, type JobState } from '../../core/job.js'
import { heedCancel, leavesNothing, type Outcome, settleResult, totalsOf } from '../../core/lifecycle.js'
import type { Settlement, SettleResult } from '../../core/store.js'
import { clean } from '../../core/text.js'
import { superseded } from '../../core/traffic/dedupe.js'
import type { TrafficSubject } from '../../core/traffic/places.js'
import { type Lease, readToken } from '../ledger/token.js'
import { makeHolders } from './dedupe.js'
import type { ChildEnd } from './ends.js'
import type { WriteReport } from './extend.js'
import type { Families } from './family.js'
import { hasGuard, makeJobGuards } from './guard.js'
import type { Insert, Told } from './insert.js'
import type { Pending } from './pending.js'
import { only, type Positions, positionsOf, prepareAt } from './positions.js'
import { settle as sql } from './sql.generated.js'
import { stateNumber, stays, type Tables, traits, unwinds } from './tables.js'
import type { Places, Traffic } from './traffic.js'
import type { Waiting } from './waiting.js'

export type Settle = (worker: string, settlements: readonly Settlement[], now: number) => SettleResult[]

interface SettleParts {
  readonly insert: Insert
  readonly pending: Pending
  readonly traffic: Traffic
  readonly places: Places
  readonly remove: Remove
  readonly writeReport: WriteReport
  readonly signals: Told
  readonly families: Families
  readonly doom: (seq: number) => void
  readonly waiting: Waiting
}

/**
 * Applies outcomes inside the current transaction. Jobs that simply completed under the same claim are settled
 * together: a few statements however many they are.
 */
export function makeSettle(tables: Tables, parts: SettleParts): Settle {
  const { insert, pending, traffic, places, remove, writeReport, waiting, signals, families, doom } = parts
  const { db, tally } = tables
  const held = prepareAt<{ n: number; at: number }>(db, sql.held)
  const releaseAll = prepareAt(db, sql.releaseAll)
  const release = db.prepare<[number, number, string], { at: number; logged: number }>(sql.release)
  const completeSilent = prepareAt(db, sql.completeSilent)
  const complete = db.prepare(sql.complete)
  const askedOf = db.prepare<[number], Asked>(sql.asked)
  const holders = makeHolders(tables)
  const guards = makeJobGuards(tables)
  const move = db.prepare<unknown[], { id: string; attempt: number; crashes: number }>(sql.move)
  const recordAttempt = makeRecordAttempt(tables)
  const recordDeath = makeRecordDeath(tables)

  return (worker, settlements, now) => {
    const results = new Array<SettleResult>(settlements.length).fill('lost')
    const num = tables.workerNumber(worker)
    if (num === undefined) return results
    // Definitions whose jobs went down with the worker: each counts once, however many of its jobs did.
    const crashed = new Set<string>()
    for (let i = 0; i < settlements.length; ) {
      const leases = completedTogether(settlements, i)
      const together = leases.length > 1 && settleTogether(leases, i)
      const end = i + Math.max(1, leases.length)
      if (together) i = end
      else for (; i < end; i++) settleOne(i)
    }
    for (const name of crashed) traffic.crashed(name, now)
    return results

    function settleTogether(leases: readonly Lease[], start: number): boolean {
      const { claim } = leases[0] as Lease
      const positions = positionsOf(leases.map(({ seq }) => seq))
      const { n, at } = held.get([num], positions, [claim]) as { n: number; at: number }
      if (n !== leases.length) return false
      releaseAll.run([num], positions)
      allEnded(leases, positions, (settlements[start] as Settlement).outcome, at)
      tellParents(leases, positions, start)
      const { retain } = (settlements[start] as Settlement).outcome
      if (retain === 0) remove(positions)
      else completeAll(leases, positions, start, at, retain)
      for (let k = 0; k < leases.length; k++) {
        count((leases[k] as Lease).kind, (settlements[start + k] as Settlement).outcome)
        results[start + k] = 'applied'
      }
      return true
    }

    function tellParents(leases: readonly Lease[], positions: Positions, start: number): void {
      if (!leases.some(hasFamily)) return
      const isSilent = leases.every((_, k) => settlements[start + k]?.outcome.result === undefined)
      if (isSilent && !leases.some(hasParents)) return families.silently(positions, now)
      const results = new Map(leases.map(({ seq }, k) => [seq, settlements[start + k]?.outcome.result]))
      const endOf = (seq: number, id: string): ChildEnd => {
        return { id, end: 'completed', result: results.get(seq), failure: undefined }
      }
      families.together(positions, endOf, now)
    }

    /** Tells traffic control, once for all jobs that are alike to it. */
    function allEnded(leases: readonly Lease[], positions: Positions, outcome: Outcome, at: number): void {
      if (!leases.some((lease) => hasTraffic(tables.kind(lease.kind).queue))) return
      const alike = new Map<TrafficSubject, number>()
      for (const subject of places.subjects((leases[0] as Lease).claim, leases, positions))
        alike.set(subject, (alike.get(subject) ?? 0) + 1)
      for (const [subject, count] of alike) {
        if (hasTraffic(subject.queue)) traffic.ended(subject, outcome, at, count, now)
      }
    }

    function oneEnded(lease: Lease, outcome: Outcome, at: number): void {
      const [subject] = places.subjects(lease.claim, [lease], only(lease.seq))
      traffic.ended(subject as TrafficSubject, outcome, at, 1, now)
    }

    function completeAll(
      leases: readonly Lease[],
      positions: Positions,
      start: number,
      at: number,
      retain: number,
    ): void {
      const silent = leases.every((_, k) => settlements[start + k]?.outcome.result === undefined)
      if (silent) return completeSilent.run([at, now, now + retain], positions)
      for (let k = 0; k < leases.length; k++) {
        const result = settlements[start + k]?.outcome.result ?? null
        complete.run(at, now, now + retain, result, leases[k]?.seq)
      }
    }

    function settleOne(index: number): void {
      const settlement = settlements[index] as Settlement
      const lease = readToken(settlement.id, settlement.token)
      if (lease === undefined) return
      const begun = release.get(num as number, lease.seq, lease.claim)
      if (begun === undefined) return
      const { at, logged } = begun
      const ended = orWaits(settlement, lease)
      const outcome = kept(comesBack(heeded(settlement.id, ended, lease, now), lease), lease)
      results[index] = settleResult(settlement.outcome, outcome)
      const kind = tables.kind(lease.kind)
      const { name, queue } = kind
      if (hasGuard(kind)) guards.settled(lease, settlement.id, outcome, now)
      if (outcome.hold > 0 || hasTraffic(queue)) oneEnded(lease, outcome, at)
      if (outcome.crashed) crashed.add(name)
      if (isFinal(outcome.to) && hasFamily(lease)) families.endedAt(lease.seq, outcome.to, outcome, now)
      if (outcome.to === 'cancelled') doom(lease.seq)
      if (leavesNothing(outcome)) {
        count(lease.kind, outcome)
        remove(only(lease.seq))
      } else {
        // Before it waits: what ends its wait is written over the step that began it.
        if (settlement.report !== undefined) writeReport(lease.seq, settlement.report, logged)
        const landed = land(lease, outcome)
        count(lease.kind, landed)
        apply(lease, landed, at)
      }
      if (diesCompensated(outcome)) families.compensated(lease.seq)
      const { inserts } = settlement
      if (inserts !== undefined && bringsInserts(settlement.outcome, outcome))
        insert.fromHandler(inserts, settlement.id)
    }

    /** A job that waits for what is there already does not wait. */
    function land({ seq }: Lease, outcome: Outcome): Outcome {
      if (outcome.to !== 'blocked' || outcome.wait === undefined) return outcome
      return { ...outcome, to: waiting.begin(seq, outcome.wait, now) }
    }

    function apply(lease: Lease, outcome: Outcome, at: number): void {
      const kind = tables.kind(lease.kind)
      const final = isFinal(outcome.to)
      const dueAt = dueAtOf(outcome, now)
      const row = move.get(
        stateNumber[outcome.to],
        outcome.spent ? 1 : 0,
        outcome.crashed ? 1 : 0,
        outcome.to === 'retrying' ? outcome.delay : 0,
        dueAt ?? null,
        outcome.idle && outcome.to !== 'completed' ? null : at,
        final ? now : null,
        final ? now + outcome.retain : null,
        outcome.result ?? null,
        outcome.failure === undefined ? null : JSON.stringify(outcome.failure),
        outcome.to === 'dead' ? (outcome.failure?.cause ?? null) : null,
        // One that unwinds has its reason until it has ended.
        !final && unwinds(kind) ? 1 : 0,
        outcome.reason ?? null,
        lease.seq,
      )
      if (row === undefined) return
      if (outcome.failure !== undefined) {
        recordAttempt(lease.seq, at, now, worker, outcome.to, outcome.failure)
        if (outcome.to === 'dead') recordDeath(outcome.failure, kind.name, row.id, now)
      }
      if (outcome.to === 'pending') {
        pending.enter(kind, lease.seq, true)
      } else if (dueAt !== undefined) {
        signals.due(dueAt - now)
      }
    }
  }

  /** A job that would come back does not when it was asked to stop, or a newer one has its key. */
  function heeded(id: string, outcome: Outcome, { seq, kind }: Lease, now: number): Outcome {
    if (outcome.to === 'completed' || outcome.to === 'dead') return outcome
    const { reason, dedupe, created_at, started_at } = askedOf.get(seq) ?? nobody
    const job = { id, kind, dedupe, created_at }
    const hasToUndo = unwinds(tables.kind(kind)) && (!outcome.idle || started_at !== null)
    const asked = hasToUndo ? null : reason
    const comesBack = outcome.to !== 'cancelled' && asked === null
    const givesWay = comesBack && !holders.keepsKey(job, now)
    const after = heedCancel(outcome, asked ?? (givesWay ? superseded : undefined))
    if (after.to === 'cancelled') holders.letGo(job)
    return after
  }

  /** One that would die of a child waits if that is replayed meanwhile. */
  function orWaits({ outcome, inserts }: Settlement, { seq }: Lease): Outcome {
    return (diesOfChild(outcome) && families.replayedMeanwhile(seq, outcome, inserts)) || outcome
  }

  /** One that is to run again waits first for a child that was replayed while it ran. */
  function comesBack(outcome: Outcome, { seq }: Lease): Outcome {
    return isFinal(outcome.to) ? outcome : families.comesBack(seq, outcome)
  }

  /** Some are kept longer than they say, for the sake of their families. */
  function kept(outcome: Outcome, { seq, kind }: Lease): Outcome {
    if (stays(tables.kind(kind))) return staying(outcome)
    if (outcome.to !== 'cancelled') return outcome
    return { ...outcome, retain: cancelledFor(outcome.retain, families.hasOpenChildren(seq)) }
  }

  function hasFamily({ kind }: Lease): boolean {
    return (tables.kind(kind).traits & traits.family) !== 0
  }

  function hasParents({ kind }: Lease): boolean {
    return (tables.kind(kind).traits & traits.parents) !== 0
  }

  function hasTraffic(queue: string): boolean {
    return tables.queueRow(queue)?.traffic === 1
  }

  /** Completions from `start` on that share claim and retention. */
  function completedTogether(settlements: readonly Settlement[], start: number): Lease[] {
    const leases: Lease[] = []
    const retain = settlements[start]?.outcome.retain
    for (let i = start; i < settlements.length; i++) {
      const { id, outcome, token, inserts, report } = settlements[i] as Settlement
      if (outcome.to !== 'completed' || outcome.retain !== retain) break
      if (inserts !== undefined || report !== undefined) break
      const lease = readToken(id, token)
      if (lease === undefined || (leases.length > 0 && lease.claim !== leases[0]?.claim)) break
      const kind = tables.kind(lease.kind)
      if (hasGuard(kind) || stays(kind)) break
      leases.push(lease)
    }
    return leases
  }

  function count(kind: number, outcome: Outcome): void {
    tally.add(kind, 'running', -1)
    if (!leavesNothing(outcome)) tally.add(kind, outcome.to, 1)
    for (const total of totalsOf(outcome)) tally.total(kind, total, 1)
  }
}

/** When it becomes ready by itself. */
function dueAtOf({ to, delay, wait }: Outcome, now: number): number | undefined {
  if (to === 'blocked') return wait?.until
  return to === 'scheduled' || to === 'retrying' ? now + delay : undefined
}

interface Asked {
  readonly reason: string | null
  readonly dedupe: string | null
  readonly created_at: number
  readonly started_at: number | null
}

const nobody: Asked = { reason: null, dedupe: null, created_at: 0, started_at: null }

/** Whether there is any of it between two positions. */
interface Beside {
  readonly attempts: number
  readonly logs: number
  readonly steps: number
  readonly links: number
  readonly parents: number
}

/** Removes jobs with all that was kept beside them. */
export type Remove = (positions: Positions) => void

export function makeRemove({ db }: Tables): Remove {
  const jobs = prepareAt(db, sql.remove)
  const beside = db.prepare<[number, number], Beside>(sql.beside)
  const attempts = prepareAt(db, sql.removeAttempts)
  const logs = prepareAt(db, sql.removeLogs)
  const steps = prepareAt(db, sql.removeSteps)
  const links = prepareAt(db, sql.removeLinks)
  const parents = prepareAt(db, sql.removeParents)
  return (positions) => {
    jobs.run([], positions)
    // Most jobs have none of it: one look is less than one for each.
    const found = beside.get(positions.from, positions.to)
    if (found?.attempts === 1) attempts.run([], positions)
    if (found?.logs === 1) logs.run([], positions)
    if (found?.steps === 1) steps.run([], positions)
    if (found?.links === 1) links.run([], positions)
    if (found?.parents === 1) parents.run([], positions)
  }
}

type RecordAttempt = (
  seq: number,
  startedAt: number,
  endedAt: number,
  worker: string,
  to: JobState,
  failure: Failure,
) => void

/** Keeps the last attempts of a job, each with a short form of what went wrong. */
function makeRecordAttempt({ db }: Tables): RecordAttempt {
  const next = db.prepare<[number], number>(sql.nextAttempt).pluck()
  const add = db.prepare(sql.attempt)
  const trim = db.prepare(sql.trimAttempts)
  return (seq, startedAt, endedAt, worker, to, failure) => {
    const n = next.get(seq) as number
    add.run(seq, n, startedAt, endedAt, worker, stateNumber[to], JSON.stringify(shortFailure(failure)))
    if (n > bounds.attemptsKept) trim.run(seq, n - bounds.attemptsKept)
  }
}

/** Counts a death with its cause. */
function makeRecordDeath({ db }: Tables): (failure: Failure, job: string, id: string, now: number) => void {
  const died = db.prepare(sql.died)
  return (failure, job, id, now) => {
    died.run(failure.cause, job, clean(failure.message, bounds.reasonText), now, now, id)
  }
}

/** Takes a job that is dead no more out of its cause's count. */
export function makeForgetDeath({ db }: Tables): (cause: string) => void {
  const undied = db.prepare(sql.undied)
  const forget = db.prepare(sql.forgetCause)
  return (cause) => {
    undied.run(cause)
    forget.run(cause)
  }
}
