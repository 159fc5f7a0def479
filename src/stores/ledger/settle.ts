import { bounds } from '../../core/bounds.js'
import { shortFailure } from '../../core/failure.js'
import { bringsInserts, cancelledFor, diesCompensated, diesOfChild, staying } from '../../core/family.js'
import { type AttemptRecord, type Failure, isFinal } from '../../core/job.js'
import { heedCancel, leavesNothing, type Outcome, settleResult, totalsOf } from '../../core/lifecycle.js'
import type { ExchangeRequest, Settlement, SettleResult } from '../../core/store.js'
import { superseded } from '../../core/traffic/dedupe.js'
import { keepsKey, letGo } from './dedupe.js'
import { doom } from './doom.js'
import { childEnded } from './ends.js'
import { type Entry, storyOf } from './entry.js'
import { writeReport } from './extend.js'
import { settleGuard } from './guard.js'
import { insertFromHandler } from './insert.js'
import { hasOpenChildren } from './parenthood.js'
import { comesBack, replayedMeanwhile } from './replays.js'
import type { Tables } from './tables.js'
import { beginWait } from './waiting.js'
import type { Lease, Worker } from './worker.js'

/** Applies outcomes to the jobs that the worker still holds. */
export function settle(tables: Tables, request: ExchangeRequest, now: number): SettleResult[] {
  const { settlements } = request
  tables.needRoom(countInserts(settlements))
  if (settlements.length > 0) tables.signals.settled(settlements)
  const worker = tables.workers.get(request.worker)
  const isAlive = worker !== undefined && worker.expiresAt > now
  if (worker === undefined || (request.rescue === true && isAlive)) return settlements.map(() => 'lost')

  const results: SettleResult[] = []
  // Definitions whose jobs went down with the worker: each counts once, however many of its jobs did.
  const crashed = new Set<string>()
  tables.each(settlements, (settlement) => {
    results.push(settleOne(tables, worker, settlement, crashed, now))
  })
  for (const name of crashed) tables.traffic.crashed(name, now)
  return results
}

function settleOne(
  tables: Tables,
  worker: Worker,
  settlement: Settlement,
  crashed: Set<string>,
  now: number,
): SettleResult {
  const { id, inserts, report } = settlement
  const entry = tables.jobs.get(id)
  if (!tables.isHeld(entry, worker, settlement.token)) return 'lost'
  const lease = entry.lease as Lease
  const ended = orWaits(tables, entry, settlement)
  const heeded = heedCancel(ended, whyNot(tables, entry, ended, now))
  const outcome = kept(entry, comesBack(entry, heeded))
  if (outcome.to === 'cancelled') letGo(tables, entry)
  if (entry.job.guard !== undefined) settleGuard(tables, entry, outcome, now)
  // Before it leaves: a hold may make a gate of those that run, this one among them.
  if (entry.kind.queue.traffic || outcome.hold > 0) {
    tables.traffic.ended(entry.job, outcome, lease.at, 1, now, entry.gates)
    if (entry.gates !== undefined) entry.gates = undefined
  }
  tables.leave(entry)
  if (outcome.crashed) crashed.add(entry.job.name)
  for (const total of totalsOf(outcome)) entry.kind.totals[total]++
  if (leavesNothing(outcome)) {
    tables.jobs.delete(entry.job.id)
  } else {
    // Before it waits: what ends its wait is written over the step that began it.
    if (report !== undefined) writeReport(tables, entry, lease, report)
    apply(tables, entry, outcome, lease, now)
  }
  if (isFinal(outcome.to)) childEnded(tables, entry, outcome.to, outcome, now)
  if (outcome.to === 'cancelled') doom(tables, entry)
  if (diesCompensated(outcome)) compensated(entry)
  if (inserts !== undefined && bringsInserts(settlement.outcome, outcome))
    insertFromHandler(tables, inserts, id, now)
  return settleResult(settlement.outcome, outcome)
}

/** One that would die of a child waits if that is replayed meanwhile. */
function orWaits(tables: Tables, entry: Entry, { outcome, inserts }: Settlement): Outcome {
  return (diesOfChild(outcome) && replayedMeanwhile(tables, entry, outcome, inserts)) || outcome
}

function compensated({ story }: Entry): void {
  if (story?.parenthood !== undefined) story.parenthood.compensated = true
}

/** Some are kept longer than they say, for the sake of their families. */
function kept(entry: Entry, outcome: Outcome): Outcome {
  if (entry.job.family?.stays === true) return staying(outcome)
  if (outcome.to !== 'cancelled') return outcome
  return { ...outcome, retain: cancelledFor(outcome.retain, hasOpenChildren(entry)) }
}

/** Why a job that would come back is not to. */
function whyNot(tables: Tables, entry: Entry, { to, idle }: Outcome, now: number): string | undefined {
  if (isFinal(to)) return undefined
  const hasToUndo = entry.job.unwinds === true && (!idle || entry.story?.startedAt !== undefined)
  const asked = hasToUndo ? undefined : entry.story?.cancelReason
  return asked ?? (keepsKey(tables, entry, now) ? undefined : superseded)
}

function apply(tables: Tables, entry: Entry, outcome: Outcome, lease: Lease, now: number): void {
  const { failure, wait } = outcome
  const to = outcome.to === 'blocked' && wait !== undefined ? beginWait(tables, entry, wait, now) : outcome.to
  const story = storyOf(entry)
  if (outcome.spent) story.attempt++
  if (outcome.crashed) story.crashes++
  story.retryDelay = to === 'retrying' ? outcome.delay : 0
  if (!outcome.idle || to === 'completed') story.startedAt = lease.at
  story.finishedAt = isFinal(to) ? now : undefined
  story.result = outcome.result
  // One that unwinds has its reason until it has ended.
  if (entry.job.unwinds !== true || isFinal(to)) story.cancelReason = outcome.reason
  if (failure !== undefined) {
    story.failure = failure
    story.attempts = withAttempt(story.attempts, outcome, failure, lease, now)
  }
  tables.enter(entry, to, rankIn(outcome, now))
  if (to === 'blocked' && wait?.until !== undefined) tables.signals.due(wait.until - now)
  if (to === 'dead' && failure !== undefined) tables.causes.add(entry, failure, now)
  if (isDelayed(outcome)) tables.signals.due(outcome.delay)
}

function rankIn(outcome: Outcome, now: number): number {
  if (isFinal(outcome.to)) return now + outcome.retain
  if (outcome.to === 'blocked') return outcome.wait?.until ?? Number.POSITIVE_INFINITY
  return isDelayed(outcome) ? now + outcome.delay : 0
}

function isDelayed({ to }: Outcome): boolean {
  return to === 'scheduled' || to === 'retrying'
}

/** The last attempts, each with a short form of what went wrong. Attempts given back do not count. */
function withAttempt(
  attempts: readonly AttemptRecord[],
  { to }: Outcome,
  failure: Failure,
  lease: Lease,
  now: number,
): AttemptRecord[] {
  const record: AttemptRecord = {
    attempt: (attempts.at(-1)?.attempt ?? 0) + 1,
    startedAt: lease.at,
    endedAt: now,
    worker: lease.worker.id,
    to,
    failure: shortFailure(failure),
  }
  return [...attempts, record].slice(-bounds.attemptsKept)
}

function countInserts(settlements: readonly Settlement[]): number {
  let count = 0
  for (const { inserts } of settlements) if (inserts !== undefined) count += inserts.length
  return count
}
