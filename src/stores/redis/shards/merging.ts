/** Several shards, read as one. */
import { MillraceError, show } from '../../../core/errors.js'
import type { JobRecord, JobState } from '../../../core/job.js'
import type { Cause, Counts, JobPage, JobQuery, KindCounts } from '../../../core/store.js'
import { kindKey } from '../../page/kinds.js'

export function mergeCounts(all: readonly Counts[]): Counts {
  const kinds = new Map<string, KindCounts>()
  for (const kind of all.flatMap((counts) => counts.kinds)) {
    const key = kindKey(kind.queue, kind.name, kind.lane)
    const known = kinds.get(key)
    kinds.set(
      key,
      known === undefined
        ? kind
        : { ...kind, states: sums(known.states, kind.states), totals: sums(known.totals, kind.totals) },
    )
  }
  return { kinds: [...kinds.values()], paused: [...new Set(all.flatMap(({ paused }) => paused))].sort() }
}

function sums<K extends string>(
  a: Readonly<Record<K, number>>,
  b: Readonly<Record<K, number>>,
): Record<K, number> {
  return Object.fromEntries(
    Object.entries(a).map(([key, n]) => [key, (n as number) + b[key as K]]),
  ) as Record<K, number>
}

export function mergeCauses(all: readonly (readonly Cause[])[], most: number): Cause[] {
  const causes = new Map<string, Cause>()
  for (const cause of all.flat()) {
    const known = causes.get(cause.cause)
    causes.set(cause.cause, known === undefined ? cause : together(known, cause))
  }
  return [...causes.values()]
    .sort((a, b) => b.lastAt - a.lastAt || (a.cause < b.cause ? -1 : 1))
    .slice(0, most)
}

function together(a: Cause, b: Cause): Cause {
  const latest = a.lastAt >= b.lastAt ? a : b
  return { ...latest, count: a.count + b.count, firstAt: Math.min(a.firstAt, b.firstAt) }
}

type List = (query: JobQuery) => Promise<JobPage>

/** Where each shard goes on; null for one that has no more. */
type Cursors = readonly (string | null)[]

/**
 * In the order of their state, as far as that is a time; jobs that wait come shard by shard. A shard that has looked at as many as one
 * call may, and found too few, ends the page: what comes next of it may belong before the others.
 */
export async function mergeList(shards: readonly List[], query: JobQuery): Promise<JobPage> {
  const cursors = query.cursor === undefined ? shards.map(() => '') : readCursors(query.cursor, shards.length)
  if (timeOf(query.filter.state) === undefined) return listInTurn(shards, query, cursors)
  const pages = await Promise.all(
    shards.map((list, i) =>
      cursors[i] === null ? nothing : list({ ...query, cursor: cursors[i] || undefined }),
    ),
  )
  const taken = takeFirst(pages, query)
  const jobs: JobRecord[] = taken.map(({ job }) => job)
  const next = await Promise.all(
    pages.map(async ({ jobs: found, cursor }, i) => {
      const count = taken.filter(({ shard }) => shard === i).length
      if (count === found.length) return cursors[i] === null ? null : (cursor ?? null)
      if (count === 0) return cursors[i] ?? null
      const again = await (shards[i] as List)({ ...query, cursor: cursors[i] || undefined, limit: count })
      return again.cursor ?? null
    }),
  )
  return { jobs, cursor: next.every((cursor) => cursor === null) ? undefined : JSON.stringify(next) }
}

function readCursors(cursor: string, shards: number): Cursors {
  const parts = parse(cursor)
  const isOurs = Array.isArray(parts) && parts.length === shards && parts.some((part) => part !== null)
  if (!isOurs || !parts.every((part) => part === null || typeof part === 'string')) throw notOurs(cursor)
  return parts
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function notOurs(cursor: string): MillraceError {
  return new MillraceError('INVALID_OPTION', `cursor is ${show(cursor)}; expected one that was returned`, {
    field: 'cursor',
    value: cursor,
  })
}

const nothing: JobPage = { jobs: [], cursor: undefined }

/** One shard after the other, until the page is full. */
async function listInTurn(shards: readonly List[], query: JobQuery, cursors: Cursors): Promise<JobPage> {
  const jobs: JobRecord[] = []
  const next = [...cursors]
  for (const [at, list] of shards.entries()) {
    const cursor = next[at]
    if (cursor === null || cursor === undefined) continue
    if (jobs.length >= query.limit) break
    const page = await list({ ...query, limit: query.limit - jobs.length, cursor: cursor || undefined })
    jobs.push(...page.jobs)
    next[at] = page.cursor ?? null
    if (page.cursor !== undefined) break
  }
  return { jobs, cursor: next.every((left) => left === null) ? undefined : JSON.stringify(next) }
}

function takeFirst(pages: readonly JobPage[], { filter, limit }: JobQuery) {
  const time = timeOf(filter.state) as (job: JobRecord) => number
  const taken: { readonly job: JobRecord; readonly shard: number }[] = []
  const places = pages.map(() => 0)
  while (taken.length < limit) {
    let first = -1
    for (const [i, { jobs, cursor }] of pages.entries()) {
      const job = jobs[places[i] as number]
      if (job === undefined && cursor !== undefined) return taken
      if (job === undefined) continue
      const best = pages[first]?.jobs[places[first] as number]
      if (best === undefined || time(job) < time(best)) first = i
    }
    if (first < 0) return taken
    taken.push({ job: pages[first]?.jobs[places[first] as number] as JobRecord, shard: first })
    places[first] = (places[first] as number) + 1
  }
  return taken
}

/** What jobs of a state are in the order of, finished ones newest first; undefined where that is no time. */
function timeOf(state: JobState): ((job: JobRecord) => number) | undefined {
  switch (state) {
    case 'scheduled':
    case 'retrying':
    case 'blocked':
      return ({ dueAt }) => dueAt ?? Number.POSITIVE_INFINITY
    case 'completed':
    case 'dead':
    case 'cancelled':
      return ({ expiresAt }) => -(expiresAt ?? Number.POSITIVE_INFINITY)
    default:
      return undefined
  }
}
