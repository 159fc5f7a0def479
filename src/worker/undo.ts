import { linksOf } from '../client/links.js'
import type { Runtime } from '../client/runtime.js'
import { makeUndo } from '../client/undo.js'
import { bounds } from '../core/bounds.js'
import type { AnyJob } from '../core/definition.js'
import type { LinkRecord } from '../core/family.js'
import { isFinal, type JobRecord, type NewJob } from '../core/job.js'

/** What is below a job. */
interface Below {
  /** It and all that it waited for, directly or not. */
  readonly ids: ReadonlySet<string>
  /** What of that can be undone: each time that it was done, see `timeOf`. */
  readonly completed: ReadonlyMap<string, LinkRecord>
  /** Who of that waited for each of these. */
  readonly waiters: ReadonlyMap<string, readonly string[]>
  /** What undoes others of that was added before. */
  readonly isUndone: boolean
  /** All of that has ended. */
  readonly isQuiet: boolean
}

export async function lookBelow(id: string, runtime: Runtime): Promise<Below> {
  const ids = new Set([id])
  const completed = new Map<string, LinkRecord>()
  const waiters = new Map<string, string[]>()
  let isUndone = false
  let isQuiet = true
  for (let parents = [id]; parents.length > 0; ) {
    const next: string[] = []
    const level = new Map<string, LinkRecord>()
    for (let i = 0; i < parents.length; i += bounds.page)
      for await (const link of linksOf(runtime, { parents: parents.slice(i, i + bounds.page) })) {
        // What a step has added cannot be undone, and may go on for as long as it likes.
        if (link.fan !== undefined) continue
        if (!ids.has(link.child)) next.push(link.child)
        ids.add(link.child)
        if (link.end === undefined) isQuiet = false
        isUndone ||= link.undone
        const canBeUndone = link.end === 'completed' && link.undo !== undefined && !link.undone
        if (!canBeUndone) continue
        const time = timeOf(link)
        if (waiters.get(time)?.push(link.parent) === undefined) waiters.set(time, [link.parent])
        if (!completed.has(time)) level.set(time, link)
      }
    for (const link of [...level.values()].reverse()) completed.set(timeOf(link), link)
    parents = next
  }
  return { ids, completed, waiters, isUndone, isQuiet }
}

/** A child that was replayed may have been done several times, each of which one of its parents knows of. */
function timeOf({ child, endedAt }: LinkRecord): string {
  return `${child} ${endedAt}`
}

/** What undoes all that completed below it, the last one first, each after the one before. */
export async function undoOf(
  { ids, completed, waiters }: Below,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<NewJob[] | undefined> {
  const children = new Set([...completed.values()].map(({ child }) => child))
  const others = await waitersElsewhere([...children], ids, runtime)
  const needy = await needyOf([...others.values()].flat(), runtime)
  const othersOf = (child: string) => others.get(child) ?? []
  const done = [...completed.values()].filter(({ child }) => !othersOf(child).some((id) => needy.has(id)))
  // Those that were found first waited for the others: of two that ended at once, they came later.
  done.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
  const waitersOf = (link: LinkRecord) => [...(waiters.get(timeOf(link)) ?? []), ...othersOf(link.child)]
  return done.length === 0 ? undefined : makeUndo(runtime, jobs, done, waitersOf)
}

/** Jobs of other branches that wait for these, or did. */
async function waitersElsewhere(
  ids: readonly string[],
  below: ReadonlySet<string>,
  runtime: Runtime,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const waiters = new Map<string, readonly string[]>()
  for (const { id, family } of await read(ids, runtime))
    waiters.set(id, family?.parents.filter((parent) => !below.has(parent)) ?? [])
  return waiters
}

/** Those that have used what they waited for, or will, because nothing stands in their way: that stays as it is. */
async function needyOf(ids: readonly string[], runtime: Runtime): Promise<ReadonlySet<string>> {
  const users = await read([...new Set(ids)], runtime)
  return new Set(users.filter(needsChildren).map(({ id }) => id))
}

function needsChildren({ state, family }: JobRecord): boolean {
  return state === 'completed' || (!isFinal(state) && family?.failed === 0)
}

/** Those that are still there. */
async function read(ids: readonly string[], runtime: Runtime): Promise<JobRecord[]> {
  const found: JobRecord[] = []
  for (let i = 0; i < ids.length; i += bounds.page)
    for (const record of await runtime.store.get(ids.slice(i, i + bounds.page)))
      if (record !== undefined) found.push(record)
  return found
}
