import {
  type Business,
  type FailurePolicy,
  hasBusiness,
  insteadOfDeath,
  isGiven,
  onReplay,
  orBlocked,
  standsInTheWay,
  waitsAgain,
} from '../../core/family.js'
import type { Failure, FinalState, JobState, NewJob } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { Fans } from './fans.js'
import { hasGuard, makeJobGuards } from './guard.js'
import { type Counts, childless, type JobAt, type Kin, parentsOf } from './kin.js'
import { parse } from './parse.js'
import type { Pending } from './pending.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables, unwinds } from './tables.js'
import type { Waiting } from './waiting.js'

/** What replays mean for children and parents. */
export function makeReplays(
  tables: Tables,
  pending: Pending,
  waiting: Waiting,
  fans: Fans,
  forgetDeath: (cause: string) => void,
) {
  const { db, tally } = tables
  const jobAt = db.prepare<[number], JobAt>(sql.job)
  const endOf = db.prepare<[number, string], LinkEnd>(sql.endOf)
  const counts = db.prepare<[number], Counts>(sql.family)
  const reopen = db.prepare(sql.reopen)
  const moreWaiting = db.prepare(sql.moreWaiting)
  const moreFanned = db.prepare(sql.moreFanned)
  const reviveOne = db.prepare(sql.revive)
  const guards = makeJobGuards(tables)
  const startOverOne = db.prepare<[number], { waiting: number; open: number }>(sql.startOver)
  const waitOn = db.prepare(sql.waitOn)
  const isLeased = db.prepare<[number]>(sql.isLeased)
  const completedAt = db.prepare<[string, string, number]>(sql.completedAt)
  const setCompensated = db.prepare(sql.compensated)

  return { replayed, replayedMeanwhile, comesBack, compensated, startOver }

  /** Takes the end of a job back that is replayed; and so on, for those that were dead only because of it. */
  function replayed(first: Kin & { readonly id: string }): void {
    const jobs = [first]
    for (const job of jobs) {
      for (const seq of parentsOf(job)) {
        const parent = jobAt.get(seq)
        const link = endOf.get(seq, job.id)
        if (parent === undefined || link === undefined || link.state === null) continue
        const end = stateName(link.state) as FinalState
        const { fan } = link
        if (fan !== null && isGiven(end, fans.isClosed(seq, fan))) continue
        const state = stateOfParent(parent)
        const known = counts.get(seq) ?? childless
        const verdict = onReplay({
          state,
          failure: parse<Failure>(parent.failure),
          hasBusiness: fan !== null || hasBusiness(businessOf(parent, known)),
        })
        if (verdict === 'nothing') continue
        reopen.run(seq, job.id)
        // It stands in its parent's way no more, unless others were undone because of it.
        const stood = standsInTheWay(end, link.on_failure)
        const isMore = fan === null ? moreWaiting : moreFanned
        isMore.run(stood && known.compensated === 0 ? 1 : 0, seq)
        if (verdict === 'revives') {
          revive(parent)
          jobs.push(parent)
        }
        if (verdict === 'returns') goBack(parent, state)
      }
    }
  }

  function stateOfParent({ seq, state }: JobAt): JobState {
    return isLeased.get(seq) === undefined ? stateName(state) : 'running'
  }

  function revive(parent: JobAt): void {
    if (parent.cause !== null) forgetDeath(parent.cause)
    reviveOne.run(parent.seq)
    if (hasGuard(tables.kind(parent.kind))) guards.reopen(parent.seq, parent.id, tables.clock.now())
    tally.move(parent.kind, 'dead', 'blocked', 1)
  }

  /** It was about to run, or waited for something else, and waits for a child again. */
  function goBack({ seq, kind }: JobAt, state: JobState): void {
    if (state === 'pending') pending.leave(tables.kind(kind), seq)
    if (state === 'blocked') waiting.forget(seq)
    waitOn.run(seq)
    tally.move(kind, state, 'blocked', 1)
  }

  function businessOf(
    { kind, reason }: JobAt,
    { waiting, open, alarmed }: Counts,
  ): Business & { waiting: number } {
    const unwinding = reason !== null && unwinds(tables.kind(kind))
    return { waiting, open: open === 1, alarmed: alarmed === 1, unwinding }
  }

  /** A run is over that is not the last one. */
  function comesBack(seq: number, outcome: Outcome): Outcome {
    const known = counts.get(seq)
    const row = known === undefined || known.waiting === 0 ? undefined : jobAt.get(seq)
    return row === undefined ? outcome : orBlocked(outcome, businessOf(row, known as Counts))
  }

  /** It died, and what completed for it is undone. */
  function compensated(seq: number): void {
    setCompensated.run(seq)
  }

  /** Whether a job that comes back must wait for its children first. */
  function startOver(seq: number): 'waits' | 'runs' {
    const counts = startOverOne.get(seq)
    const waits = counts !== undefined && waitsAgain({ waiting: counts.waiting, open: counts.open === 1 })
    return waits ? 'waits' : 'runs'
  }

  /** A run ends because of a child: what becomes of the job if it need not. */
  function replayedMeanwhile(
    seq: number,
    outcome: Outcome,
    inserts: readonly NewJob[] | undefined,
  ): Outcome | undefined {
    const child = outcome.failure?.child
    const link = child === undefined ? undefined : endOf.get(seq, child)
    const isWaiting = (counts.get(seq)?.waiting ?? 0) > 0
    const isOld = inserts?.some(undoesWhatIsNoMore) === true
    return insteadOfDeath(outcome, { link: link && endedAs(link), isWaiting, isOld })
  }

  function undoesWhatIsNoMore({ family }: NewJob): boolean {
    if (family?.undoes === undefined) return false
    const { child, endedAt, parents } = family.undoes
    return !parents.some((id) => completedAt.get(id, child, endedAt) !== undefined)
  }
}

interface LinkEnd {
  readonly state: number | null
  readonly on_failure: FailurePolicy
  readonly fan: string | null
}

function endedAs({ state, fan }: LinkEnd) {
  return {
    end: state === null ? undefined : (stateName(state) as FinalState),
    fan: fan ?? undefined,
  }
}
