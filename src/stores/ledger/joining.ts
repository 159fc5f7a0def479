import {
  type Completion,
  isCompletion,
  keepsUndone,
  type NewFamily,
  type ParentLink,
  takesChildren,
} from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { type Entry, storyOf } from './entry.js'
import { isWaiting, knows, type Link, Parenthood } from './parenthood.js'
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
    const parent = parents[i] as Entry
    parenthoodOf(tables, parent).add(newLink(parent.job.id, link, job))
  })
  return 'joined'
}

export function newLink(parent: string, { onFailure, wakes, undo, fan }: ParentLink, child: NewJob): Link {
  return {
    parent,
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
    undone: false,
  }
}

function asParent(entry: Entry | undefined) {
  return entry && { state: entry.state, waiting: entry.story?.parenthood?.waiting ?? 0 }
}

/** Whether one of its parents has a child of that id. */
export function isKnown(tables: Tables, { id: child }: NewJob, { parents }: NewFamily): boolean {
  return parents.some(({ id }) => knows(tables.jobs.get(id), child))
}

/** Links of this completion keep that it is undone. False where one of them did so before. */
export function undo(tables: Tables, completion: Completion): boolean {
  const { child, parents } = completion
  const links = parents.flatMap((id) => tables.jobs.get(id)?.story?.parenthood?.links.get(child) ?? [])
  const isFirst = !links.some((link) => keepsUndone(link, completion))
  for (const link of links) link.undone ||= isCompletion(link, completion)
  return isFirst
}

function parenthoodOf(tables: Tables, entry: Entry): Parenthood {
  const story = storyOf(entry)
  story.parenthood ??= new Parenthood(tables.newLinks(entry))
  return story.parenthood
}

export function addBlocked(tables: Tables, job: NewJob, building: Building, now: number): InsertResult {
  const entry = tables.add(job, now)
  entry.kind.totals.enqueued++
  const parenthood = parenthoodOf(tables, entry)
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
