import {
  type Business,
  hasBusiness,
  insteadOfDeath,
  isCompletion,
  isGiven,
  onReplay,
  orBlocked,
  standsInTheWay,
  waitsAgain,
} from '../../core/family.js'
import type { FinalState, NewJob } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import { type Entry, storyOf } from './entry.js'
import { reopenGuard } from './guard.js'
import { isWaiting, type Link, type Parenthood } from './parenthood.js'
import type { Tables } from './tables.js'

/** Takes the end of a job back that is replayed; and so on, for those that were dead only because of it. */
export function childReplayed(tables: Tables, replayed: Entry): void {
  const entries = [replayed]
  for (const entry of entries) {
    for (const { id } of entry.job.family?.parents ?? []) {
      const parent = tables.jobs.get(id)
      const parenthood = parent?.story?.parenthood
      const link = parenthood?.links.get(entry.job.id)
      if (parent === undefined || parenthood === undefined || link?.end === undefined) continue
      const { fan, end } = link
      if (fan !== undefined && isGiven(end, parenthood.closed.has(fan))) continue
      const verdict = onReplay({
        state: parent.state,
        failure: parent.story?.failure,
        hasBusiness: fan !== undefined || hasBusiness(businessOf(parent)),
      })
      if (verdict === 'nothing') continue
      reopen(parenthood, link)
      if (verdict === 'revives') {
        revive(tables, parent)
        entries.push(parent)
      }
      if (verdict === 'returns') {
        tables.leave(parent)
        tables.enter(parent, 'blocked', Number.POSITIVE_INFINITY)
      }
    }
  }
}

function reopen(parenthood: Parenthood, link: Link): void {
  if (standsInTheWay(link.end as FinalState, link.onFailure)) parenthood.countRisen(link)
  const lives = { end: undefined, endedAt: undefined, result: undefined, failure: undefined, undone: false }
  Object.assign(link, lives)
  parenthood.count(link, 1)
  if (link.fan !== undefined) parenthood.replays++
}

function revive(tables: Tables, entry: Entry): void {
  tables.leave(entry)
  reopenGuard(tables, entry, tables.clock.now())
  const story = storyOf(entry)
  story.attempt = 0
  story.crashes = 0
  story.finishedAt = undefined
  tables.enter(entry, 'blocked', Number.POSITIVE_INFINITY)
}

function businessOf({ job, story }: Entry): Business & { readonly waiting: number } {
  const parenthood = story?.parenthood
  return {
    waiting: parenthood?.waiting ?? 0,
    open: parenthood?.open ?? false,
    alarmed: parenthood?.alarmed ?? false,
    unwinding: job.unwinds === true && story?.cancelReason !== undefined,
  }
}

/** A run is over, perhaps not the last one. */
export function comesBack(entry: Entry, outcome: Outcome): Outcome {
  return entry.story?.parenthood === undefined ? outcome : orBlocked(outcome, businessOf(entry))
}

/** Whether a job that comes back must wait for its children first. */
export function startOver(tables: Tables, entry: Entry): 'waits' | 'runs' {
  const parenthood = entry.story?.parenthood
  if (parenthood === undefined) return 'runs'
  tables.doomed.delete(entry)
  return waitsAgain(parenthood) ? 'waits' : 'runs'
}

/** A run ends because of a child: what becomes of the job if it need not. */
export function replayedMeanwhile(
  tables: Tables,
  entry: Entry,
  outcome: Outcome,
  inserts: readonly NewJob[] | undefined,
): Outcome | undefined {
  const link = entry.story?.parenthood?.links.get(outcome.failure?.child ?? '')
  const isOld = inserts?.some((job) => undoesWhatIsNoMore(tables, job)) === true
  return insteadOfDeath(outcome, { link, isWaiting: isWaiting(entry), isOld })
}

function undoesWhatIsNoMore({ jobs }: Tables, { family }: NewJob): boolean {
  const undoes = family?.undoes
  if (undoes === undefined) return false
  const links = undoes.parents.flatMap((id) => jobs.get(id)?.story?.parenthood?.links.get(undoes.child) ?? [])
  return !links.some((link) => isCompletion(link, undoes))
}
