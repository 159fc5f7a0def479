import { shortFailure } from '../../core/failure.js'
import {
  afterSeal,
  type Family,
  isGiven,
  isPlainChild,
  makesWay,
  type NewFamily,
  onReplay,
  type ParentLink,
  standsInTheWay,
  takesChildren,
  waitsAgain,
  waitsInstead,
  wakesParent,
} from '../../core/family.js'
import { type FinalState, isFinal, type NewJob } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { InsertResult } from '../../core/store.js'
import { type Entry, storyOf } from './entry.js'
import { reopenGuard } from './guard.js'
import { isWaiting, type Link, Parenthood } from './parenthood.js'
import type { Tables } from './tables.js'
import { wake } from './waiting.js'

/** The jobs of one insert, or of one run's inserts. */
export interface Building {
  /** Jobs of this call that wait for children: these may still come. */
  readonly parents: Set<string>
  /** The job whose run adds them. */
  readonly by: string | undefined
}

export function newBuilding(by: string | undefined): Building {
  return { parents: new Set(), by }
}

/** Makes a new job a child of its parents: of all, or of none. */
export function join(tables: Tables, job: NewJob, building: Building): 'joined' | 'known' | 'orphaned' {
  const links = job.family?.parents ?? []
  const parents = links.map(({ id }) => tables.jobs.get(id))
  if (parents.some((parent) => knows(parent, job.id))) return 'known'
  const isBuilt = (id: string) => building.by === id || building.parents.has(id)
  if (!links.every(({ id }, i) => takesChildren(asParent(parents[i]), isBuilt(id)))) return 'orphaned'
  links.forEach((link, i) => {
    addLink(parents[i] as Entry, link, job)
  })
  return 'joined'
}

function addLink(parent: Entry, { onFailure, wakes, undo, fan }: ParentLink, child: NewJob): void {
  parenthoodOf(parent).add({
    parent: parent.job.id,
    child: child.id,
    name: child.name,
    node: child.family?.node,
    onFailure,
    wakes,
    undo,
    fan,
    end: undefined,
    endedAt: undefined,
    result: undefined,
    failure: undefined,
  })
}

function asParent(entry: Entry | undefined) {
  return entry && { state: entry.state, waiting: entry.story?.parenthood?.waiting ?? 0 }
}

/** Whether one of its parents has a child of that id. */
export function isKnown(tables: Tables, { id: child }: NewJob, { parents }: NewFamily): boolean {
  return parents.some(({ id }) => knows(tables.jobs.get(id), child))
}

function knows(parent: Entry | undefined, child: string): boolean {
  return parent?.story?.parenthood?.byChild.has(child) === true
}

function parenthoodOf(entry: Entry): Parenthood {
  const story = storyOf(entry)
  story.parenthood ??= new Parenthood()
  return story.parenthood
}

export function addBlocked(tables: Tables, job: NewJob, building: Building, now: number): InsertResult {
  const entry = tables.add(job, now)
  entry.kind.totals.enqueued++
  const parenthood = parenthoodOf(entry)
  const isOpen = job.family?.waits === 'open'
  if (isOpen) {
    parenthood.open = true
    parenthood.waiting = 1
  }
  building.parents.add(job.id)
  const patience = job.family?.patience ?? 0
  tables.enter(entry, 'blocked', isOpen ? now + patience : Number.POSITIVE_INFINITY)
  if (isOpen) tables.signals.due(patience)
  return { status: 'inserted', state: 'blocked' }
}

/** One that got no child after all need not wait. */
export function endBuilding(tables: Tables, { parents }: Building, now: number): void {
  for (const id of parents) {
    const entry = tables.jobs.get(id)
    if (entry?.state === 'blocked' && !isWaiting(entry)) wake(tables, entry, now)
  }
}

/** Tells the parents of a job that has ended, whatever way. */
export function childEnded(
  tables: Tables,
  entry: Entry,
  end: FinalState,
  { result, failure }: Pick<Outcome, 'result' | 'failure'>,
  now: number,
): void {
  for (const { id } of entry.job.family?.parents ?? []) {
    const parent = tables.jobs.get(id)
    const parenthood = parent?.story?.parenthood
    const link = parenthood?.byChild.get(entry.job.id)
    if (parent === undefined || parenthood === undefined || link?.end !== undefined || link === undefined)
      continue
    link.end = end
    link.endedAt = now
    link.result = result
    link.failure = failure && shortFailure(failure)
    parenthood.count(link, -1)
    if (standsInTheWay(end, link.onFailure)) parenthood.failed++
    const isFirstDeath = link.wakes && end === 'dead' && !parenthood.alarmed
    if (isFirstDeath) parenthood.alarmed = true
    const isAwaited = link.fan === undefined
    const isFanOver = link.fan !== undefined && parenthood.isOver(link.fan)
    const { waiting } = parenthood
    if (wakesParent({ state: parent.state, waiting }, { isFirstDeath, isAwaited, isFanOver }))
      wake(tables, parent, now)
  }
}

/** Takes the end of a job back that is replayed; and so on, for those that were dead only because of it. */
export function childReplayed(tables: Tables, replayed: Entry): void {
  const entries = [replayed]
  for (const entry of entries) {
    for (const { id } of entry.job.family?.parents ?? []) {
      const parent = tables.jobs.get(id)
      const parenthood = parent?.story?.parenthood
      const link = parenthood?.byChild.get(entry.job.id)
      if (parent === undefined || parenthood === undefined || link?.end === undefined) continue
      const { fan, end } = link
      if (fan !== undefined && isGiven(end, parenthood.closed.has(fan))) continue
      const hasBusiness = parenthood.open || parenthood.alarmed || fan !== undefined
      const verdict = onReplay({ state: parent.state, failure: parent.story?.failure, hasBusiness })
      if (verdict === 'nothing') continue
      reopen(parenthood, link, makesWay(parent.story?.failure))
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

function reopen(parenthood: Parenthood, link: Link, makesWay: boolean): void {
  const stood = standsInTheWay(link.end as FinalState, link.onFailure)
  if (stood && makesWay && parenthood.failed > 0) parenthood.failed--
  Object.assign(link, { end: undefined, endedAt: undefined, result: undefined, failure: undefined })
  parenthood.count(link, 1)
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

/** Whether a job that comes back must wait for its children first. */
export function startOver(tables: Tables, entry: Entry): 'waits' | 'runs' {
  const parenthood = entry.story?.parenthood
  if (parenthood === undefined) return 'runs'
  tables.doomed.delete(entry)
  return waitsAgain(parenthood) ? 'waits' : 'runs'
}

/** Children of its steps are forgotten with these. */
export function forgetFans({ story }: Entry): void {
  story?.parenthood?.forgetFans(({ end, onFailure }) => end !== undefined && standsInTheWay(end, onFailure))
}

/** What of these fans cannot be closed, because a child of it was replayed and has not ended. */
export function closeFans({ story }: Entry, fans: readonly string[]): string[] {
  const open = fans.filter((fan) => story?.parenthood?.isOver(fan) === false)
  for (const fan of fans) if (!open.includes(fan)) story?.parenthood?.closed.add(fan)
  return open
}

/** A run ends because of this child. What it waits for instead, if the child was replayed meanwhile. */
export function replayedMeanwhile({ story }: Entry, child: string | undefined): Outcome | undefined {
  const parenthood = story?.parenthood
  const fan = parenthood?.byChild.get(child ?? '')?.fan
  if (parenthood === undefined || fan === undefined)
    return (parenthood?.waiting ?? 0) > 0 ? waitsInstead([]) : undefined
  parenthood.closed.delete(fan)
  return parenthood.isOver(fan) ? undefined : waitsInstead([fan])
}

export function seal(tables: Tables, entry: Entry, now: number): boolean {
  const parenthood = entry.story?.parenthood
  if (parenthood?.open !== true || isFinal(entry.state)) return false
  parenthood.open = false
  parenthood.waiting--
  const { waiting, alarmed } = parenthood
  const verdict = afterSeal({ state: entry.state, waiting }, alarmed)
  if (verdict === 'ready') wake(tables, entry, now)
  if (verdict !== 'waits') return true
  tables.leave(entry)
  tables.enter(entry, 'blocked', Number.POSITIVE_INFINITY)
  return true
}

export function familyOf(tables: Tables, { job, story }: Entry): Family | undefined {
  const own = job.family
  const parenthood = story?.parenthood
  if (own === undefined && parenthood === undefined) return undefined
  const parents = (own?.parents ?? []).filter(({ id }) => knows(tables.jobs.get(id), job.id))
  // Engines that keep rows small know the flow of a plain child by its parent alone.
  const flow = own !== undefined && isPlainChild(own) && parents.length === 0 ? undefined : own?.flow
  return {
    flow: flow ?? job.id,
    node: own?.node,
    parents: parents.map(({ id }) => id),
    children: parenthood?.byChild.size ?? 0,
    waiting: (parenthood?.waiting ?? 0) + (parenthood?.fanned ?? 0),
    failed: parenthood?.failed ?? 0,
    open: parenthood?.open ?? false,
  }
}
