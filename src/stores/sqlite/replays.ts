import {
  type FailurePolicy,
  insteadOfDeath,
  isGiven,
  makesWay,
  onReplay,
  standsInTheWay,
  waitsAgain,
} from '../../core/family.js'
import type { Failure, FinalState, JobState } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { Fans } from './fans.js'
import { hasGuard, makeJobGuards } from './guard.js'
import { type Counts, childless, type JobAt, type Kin, parentsOf } from './kin.js'
import { parse } from './parse.js'
import type { Pending } from './pending.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'

/** What replays mean for children and parents. */
export function makeReplays(
  tables: Tables,
  pending: Pending,
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

  return { replayed, replayedMeanwhile, startOver }

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
        const { open, alarmed } = counts.get(seq) ?? childless
        const failure = parse<Failure>(parent.failure)
        const hasBusiness = open === 1 || alarmed === 1 || fan !== null
        const verdict = onReplay({ state, failure, hasBusiness })
        if (verdict === 'nothing') continue
        reopen.run(seq, job.id)
        const stood = standsInTheWay(end, link.on_failure)
        const isMore = fan === null ? moreWaiting : moreFanned
        isMore.run(stood && makesWay(failure) ? 1 : 0, seq)
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

  /** It was about to run and waits again. */
  function goBack({ seq, kind }: JobAt, state: JobState): void {
    if (state === 'pending') pending.leave(tables.kind(kind), seq)
    waitOn.run(seq)
    tally.move(kind, state, 'blocked', 1)
  }

  /** Whether a job that comes back must wait for its children first. */
  function startOver(seq: number): 'waits' | 'runs' {
    const counts = startOverOne.get(seq)
    const waits = counts !== undefined && waitsAgain({ waiting: counts.waiting, open: counts.open === 1 })
    return waits ? 'waits' : 'runs'
  }

  /** A run ends because of a child: what becomes of the job if it need not. */
  function replayedMeanwhile(seq: number, { failure }: Outcome): Outcome | undefined {
    const link = failure?.child === undefined ? undefined : endOf.get(seq, failure.child)
    const isWaiting = (counts.get(seq)?.waiting ?? 0) > 0
    return insteadOfDeath(link && endedAs(link), isWaiting)
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
