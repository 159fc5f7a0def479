import { bounds } from '../../core/bounds.js'
import { shortFailure } from '../../core/failure.js'
import type { FlowSubject } from '../../core/flow-control.js'
import { type Failure, isFinal, type JobState } from '../../core/job.js'
import { heedCancel, leavesNothing, type Outcome, settleResult, totalsOf } from '../../core/lifecycle.js'
import type { Settlement, SettleResult } from '../../core/store.js'
import { clean } from '../../core/text.js'
import type { WriteReport } from './extend.js'
import type { Flow, Places, SubjectRow } from './flow.js'
import type { Insert } from './insert.js'
import type { Pending } from './pending.js'
import { flow as flowSql, settle as sql } from './sql.generated.js'
import type { Signals } from './subscribe.js'
import { stateNumber, type Tables } from './tables.js'
import { type Lease, readToken } from './token.js'

export type Settle = (worker: string, settlements: readonly Settlement[]) => SettleResult[]

interface SettleParts {
  readonly insert: Insert
  readonly pending: Pending
  readonly flow: Flow
  readonly places: Places
  readonly remove: RemoveRun
  readonly writeReport: WriteReport
  readonly signals: Signals
}

/**
 * Applies outcomes inside the current transaction. Jobs that simply completed, side by side in line and
 * under the same claim, are settled as one run: a few statements however many they are.
 */
export function makeSettle(tables: Tables, parts: SettleParts): Settle {
  const { insert, pending, flow, places, remove, writeReport, signals } = parts
  const { db, tally, clock } = tables
  const held = db.prepare<[number, number, number, string], { n: number; at: number }>(sql.held)
  const releaseRun = db.prepare(sql.releaseRun)
  const release = db.prepare<[number, number, string], number>(sql.release).pluck()
  const completeRun = db.prepare(sql.completeRun)
  const complete = db.prepare(sql.complete)
  const asked = db.prepare<[number], string | null>(sql.asked).pluck()
  const move = db.prepare<unknown[], { id: string; attempt: number; crashes: number }>(sql.move)
  const subjects = db.prepare<[number, number], SubjectRow>(flowSql.subjects)
  const recordAttempt = makeRecordAttempt(tables)
  const recordDeath = makeRecordDeath(tables)

  return (worker, settlements) => {
    const now = clock.now()
    const results = new Array<SettleResult>(settlements.length).fill('lost')
    const num = tables.workerNumber(worker)
    if (num === undefined) return results
    // Definitions whose jobs went down with the worker: each counts once, however many of its jobs did.
    const crashed = new Set<string>()
    let i = 0
    while (i < settlements.length) {
      const leases = completedRun(settlements, i)
      if (leases.length > 1 && settleRun(leases, i)) {
        i += leases.length
      } else {
        settleOne(i)
        i++
      }
    }
    for (const name of crashed) flow.crashed(name, now)
    return results

    function settleRun(leases: readonly Lease[], start: number): boolean {
      const first = leases[0] as Lease
      const last = leases.at(-1) as Lease
      const { n, at } = held.get(num as number, first.seq, last.seq, first.claim) as { n: number; at: number }
      if (n !== leases.length) return false
      releaseRun.run(num, first.seq, last.seq)
      runEnded(leases, (settlements[start] as Settlement).outcome, at)
      const { retain } = (settlements[start] as Settlement).outcome
      if (retain === 0) remove(first.seq, last.seq)
      else completeAll(leases, start, at, retain)
      for (let k = 0; k < leases.length; k++) {
        count((leases[k] as Lease).kind, (settlements[start + k] as Settlement).outcome)
        results[start + k] = 'applied'
      }
      return true
    }

    /** Tells flow control, once for all jobs that are alike to it. */
    function runEnded(leases: readonly Lease[], outcome: Outcome, at: number): void {
      if (!leases.some((lease) => hasFlow(tables.kind(lease.kind).queue))) return
      const own = new Map(
        subjects.all(leases[0]?.seq as number, leases.at(-1)?.seq as number).map((row) => [row.seq, row]),
      )
      const alike = new Map<string, { subject: FlowSubject; count: number }>()
      for (const { seq, kind } of leases) {
        const row = own.get(seq)
        const key = row === undefined ? String(kind) : `${kind}\n${row.grp ?? ''}\n${row.key ?? ''}`
        const same = alike.get(key)
        if (same !== undefined) same.count++
        else {
          const subject = places.subjectOf(
            tables.kind(kind),
            row?.grp ?? null,
            row?.key ?? null,
            row?.gated ?? null,
          )
          alike.set(key, { subject, count: 1 })
        }
      }
      for (const { subject, count } of alike.values()) {
        if (hasFlow(subject.queue)) flow.ended(subject, outcome, at, count, now)
      }
    }

    function completeAll(leases: readonly Lease[], start: number, at: number, retain: number): void {
      const silent = leases.every((_, k) => settlements[start + k]?.outcome.result === undefined)
      if (silent) {
        completeRun.run(at, now, now + retain, leases[0]?.seq, leases.at(-1)?.seq)
      } else {
        for (let k = 0; k < leases.length; k++) {
          const result = settlements[start + k]?.outcome.result ?? null
          complete.run(at, now, now + retain, result, leases[k]?.seq)
        }
      }
    }

    function settleOne(index: number): void {
      const settlement = settlements[index] as Settlement
      const lease = readToken(settlement.id, settlement.token)
      if (lease === undefined) return
      const at = release.get(num as number, lease.seq, lease.claim)
      if (at === undefined) return
      const outcome = isFinal(settlement.outcome.to)
        ? settlement.outcome
        : heedCancel(settlement.outcome, asked.get(lease.seq) ?? undefined)
      results[index] = settleResult(settlement.outcome, outcome)
      const { name, queue } = tables.kind(lease.kind)
      if (outcome.hold > 0 || hasFlow(queue)) flow.ended(places.job(lease.seq).job, outcome, at, 1, now)
      if (outcome.crashed) crashed.add(name)
      count(lease.kind, outcome)
      if (leavesNothing(outcome)) remove(lease.seq, lease.seq)
      else {
        apply(lease, outcome, at)
        if (settlement.report !== undefined) writeReport(lease.seq, settlement.report)
      }
      if (settlement.inserts !== undefined) insert(settlement.inserts)
    }

    function apply(lease: Lease, outcome: Outcome, at: number): void {
      const kind = tables.kind(lease.kind)
      const final = isFinal(outcome.to)
      const due = outcome.to === 'scheduled' || outcome.to === 'retrying'
      const row = move.get(
        stateNumber[outcome.to],
        outcome.spent ? 1 : 0,
        outcome.crashed ? 1 : 0,
        outcome.to === 'retrying' ? outcome.delay : 0,
        due ? now + outcome.delay : null,
        at,
        final ? now : null,
        final ? now + outcome.retain : null,
        outcome.result ?? null,
        outcome.failure === undefined ? null : JSON.stringify(outcome.failure),
        outcome.to === 'dead' ? (outcome.failure?.cause ?? null) : null,
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
      } else if (due) {
        signals.due(outcome.delay)
      }
    }
  }

  function hasFlow(queue: string): boolean {
    return tables.queueRow(queue)?.flow === 1
  }

  /** Consecutive completions from `start` on that share claim and retention and stand side by side in line. */
  function completedRun(settlements: readonly Settlement[], start: number): Lease[] {
    const leases: Lease[] = []
    const retain = settlements[start]?.outcome.retain
    for (let i = start; i < settlements.length; i++) {
      const { id, outcome, token, inserts, report } = settlements[i] as Settlement
      if (outcome.to !== 'completed' || outcome.retain !== retain) break
      if (inserts !== undefined || report !== undefined) break
      const lease = readToken(id, token)
      if (lease === undefined) break
      const previous = leases.at(-1)
      if (previous !== undefined && (lease.seq !== previous.seq + 1 || lease.claim !== previous.claim)) break
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

/** Removes jobs at the positions from `from` to `to`, with all that was kept beside them. */
export type RemoveRun = (from: number, to: number) => void

export function makeRemoveRun({ db }: Tables): RemoveRun {
  const statements = [sql.removeRun, sql.removeAttempts, sql.removeLogs].map((text) => db.prepare(text))
  return (from, to) => {
    for (const statement of statements) statement.run(from, to)
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
