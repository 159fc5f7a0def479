import type { Runtime } from '../client/runtime.js'
import { makeUndo } from '../client/undo.js'
import { bounds } from '../core/bounds.js'
import type { AnyJob } from '../core/definition.js'
import type { LinkRecord } from '../core/family.js'
import { isFinal, type JobRecord, type NewJob } from '../core/job.js'
import { linksOf } from './links.js'

/** What is below a job. */
interface Below {
  /** It and all that it waited for, directly or not. */
  readonly ids: ReadonlySet<string>
  /** What of that can be undone, by its id. */
  readonly completed: ReadonlyMap<string, LinkRecord>
  /** All of that has ended. */
  readonly isQuiet: boolean
}

export async function lookBelow(id: string, runtime: Runtime): Promise<Below> {
  const ids = new Set([id])
  const completed = new Map<string, LinkRecord>()
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
        const canBeUndone = link.end === 'completed' && link.undo !== undefined
        if (canBeUndone && !completed.has(link.child)) level.set(link.child, link)
      }
    for (const link of [...level.values()].reverse()) completed.set(link.child, link)
    parents = next
  }
  return { ids, completed, isQuiet }
}

/** What undoes all that completed below it, the last one first, each after the one before. */
export async function undoOf(
  { ids, completed }: Below,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<NewJob[] | undefined> {
  const needed = await neededElsewhere([...completed.keys()], ids, runtime)
  const done = [...completed.values()].filter(({ child }) => !needed.has(child))
  // Those that were found first waited for the others: of two that ended at once, they came later.
  done.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
  return done.length === 0 ? undefined : makeUndo(runtime, jobs, done)
}

/** Those that a job of another branch has used, or will, because nothing stands in its way: they stay as they are. */
async function neededElsewhere(
  ids: readonly string[],
  below: ReadonlySet<string>,
  runtime: Runtime,
): Promise<ReadonlySet<string>> {
  const usersOf = new Map<string, readonly string[]>()
  for (const { id, family } of await read(ids, runtime))
    usersOf.set(id, family?.parents.filter((parent) => !below.has(parent)) ?? [])
  const users = await read([...new Set([...usersOf.values()].flat())], runtime)
  const needy = new Set(users.filter(needsChildren).map(({ id }) => id))
  return new Set(ids.filter((id) => usersOf.get(id)?.some((user) => needy.has(user))))
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
