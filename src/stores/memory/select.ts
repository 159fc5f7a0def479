import { isMendable } from '../../core/child-failed.js'
import { MillraceError, show } from '../../core/errors.js'
import { isFinal, type JobState } from '../../core/job.js'
import { hasField } from '../../core/search.js'
import type { JobFilter, JobQuery } from '../../core/store.js'
import type { Entry } from '../ledger/entry.js'
import type { Selection } from '../ledger/tables.js'
import type { Worker } from '../ledger/worker.js'
import type { MemoryQueue } from './kind.js'
import type { MemoryTables } from './tables.js'
import type { MemoryWorker } from './worker.js'

/** A call looks at this many jobs at most; a filter that matches few gets a cursor to go on with. */
const scanBudget = 5_000

/** Walks the jobs of the filter's state in their own order and keeps those that it wants. */
export function select(tables: MemoryTables, { filter, limit, cursor }: JobQuery): Selection {
  const entries: Entry[] = []
  const start = readCursor(filter.state, cursor)
  let looked = 0
  let last: Entry | undefined
  for (const entry of walk(tables, filter, start)) {
    if (entries.length >= limit || looked === scanBudget) {
      return { entries, cursor: last === undefined ? cursor : writeCursor(last) }
    }
    if (matches(entry, filter)) entries.push(entry)
    last = entry
    looked++
  }
  return { entries, cursor: undefined }
}

/** A place in a state's order: queue, lane and position; worker and position; or rank and position. */
type Place = readonly [number, number, number]

function walk(tables: MemoryTables, filter: JobFilter, place: Place): Iterable<Entry> {
  const { state, cause } = filter
  if (state === 'pending') return walkPending(tables, place)
  if (state === 'running') return walkRunning(tables, place)
  const shelf = cause !== undefined && state === 'dead' ? tables.causes.members(cause) : tables.shelves[state]
  if (shelf === undefined) return []
  return isFinal(state) ? shelf.before(place[0], place[1]) : shelf.after(place[0], place[1])
}

/** Those in plain lines first, by queue and lane; then those with limits or groups, by the place they wait in. */
function* walkPending(tables: MemoryTables, [num, second, seq]: Place): Generator<Entry, void> {
  for (const queue of tables.kinds.queues.values()) {
    if (queue.num < num) continue
    for (const [lane, line] of queue.lines.entries()) {
      if (queue.num > num || lane > second) yield* line.after(0, -1)
      else if (lane === second) yield* line.after(0, seq)
    }
  }
  for (const place of tables.books.waiting()) {
    if (trafficPlace + place.num > num) yield* place.jobs.after(Number.NEGATIVE_INFINITY, 0)
    else if (trafficPlace + place.num === num) yield* place.jobs.after(second, seq)
  }
}

/** Places of traffic control are numbered behind all queues. */
const trafficPlace = 2 ** 32

function* walkRunning({ workers }: MemoryTables, [num, seq]: Place): Generator<Entry, void> {
  for (const worker of workers.all()) {
    if (worker.num < num) continue
    for (const entry of worker.held()) if (worker.num > num || entry.seq > seq) yield entry
  }
}

function matches(entry: Entry, filter: JobFilter): boolean {
  const { job } = entry
  const at = timeOf(entry)
  return (
    (filter.queue === undefined || job.queue === filter.queue) &&
    (filter.name === undefined || job.name === filter.name) &&
    (filter.cause === undefined || entry.story?.cause === filter.cause) &&
    (filter.mendable !== true || isMendable(entry.story?.failure)) &&
    (filter.after === undefined || at >= filter.after) &&
    (filter.before === undefined || at < filter.before) &&
    (filter.tag === undefined || job.tags?.includes(filter.tag) === true) &&
    (filter.field === undefined || hasField({ input: job.input, search: job.search }, filter.field))
  )
}

function timeOf({ state, createdAt, rank, lease, story }: Entry): number {
  if (state === 'running') return lease?.at ?? createdAt
  if (state === 'scheduled' || state === 'retrying') return rank
  if (state === 'blocked' && rank !== Number.POSITIVE_INFINITY) return rank
  return story?.finishedAt ?? createdAt
}

function writeCursor(entry: Entry): string {
  return [entry.state, ...placeOf(entry)].join(':')
}

function placeOf({ state, kind, lease, rank, seq, story }: Entry): Place {
  if (state === 'pending') {
    const place = story?.place
    return place === undefined
      ? [(kind.queue as MemoryQueue).num, kind.lane, seq]
      : [trafficPlace + place.num, rank, seq]
  }
  if (state === 'running') return [lease === undefined ? 0 : numOf(lease.worker), seq, 0]
  return [rank, seq, 0]
}

/** Without a cursor, the place before the first job: finished jobs are listed newest first. */
function readCursor(state: JobState, cursor: string | undefined): Place {
  const end = Number.POSITIVE_INFINITY
  if (cursor === undefined) return isFinal(state) ? [end, end, end] : [-end, -1, -1]
  const [of, ...numbers] = cursor.split(':')
  const [a = Number.NaN, b = Number.NaN, c = Number.NaN] = numbers.map((text) => Number(text || 'none'))
  if (of !== state || numbers.length !== 3 || Number.isNaN(a + b + c)) {
    throw new MillraceError(
      'INVALID_OPTION',
      `cursor is ${show(cursor)}; expected one that a list of ${state} jobs returned`,
      {
        field: 'cursor',
        value: cursor,
      },
    )
  }
  return [a, b, c]
}

function numOf(worker: Worker): number {
  return (worker as MemoryWorker).num
}
