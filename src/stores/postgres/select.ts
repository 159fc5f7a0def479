import { MillraceError, show } from '../../core/errors.js'
import { isFinal, type JobState } from '../../core/job.js'
import type { JobFilter, JobQuery } from '../../core/store.js'
import type { Value } from './literal.js'
import { stateNumbers } from './page/job-row.js'

/** A call looks at this many jobs at most; a filter that matches few gets a cursor to go on with. */
const scanBudget = 5_000

/** A place in a state's order: rank and position; line and position; or position alone. */
type Place = readonly [number, number, number, number]

interface FoundRow {
  readonly id: string
  readonly nth: number
  readonly a: number
  readonly b: number
  readonly c: number
  readonly d: number
  readonly hit: boolean
}

export interface Found {
  readonly ids: readonly string[]
  readonly cursor: string | undefined
}

/** What is asked of `select` in read.sql, and which scan it goes through. */
export function selection(
  { filter, limit, cursor }: JobQuery,
  kinds: readonly number[] | undefined,
): { scan: string; values: Value[] } {
  const { state, tag, cause, mendable, after, before } = filter
  const place = readCursor(state, cursor)
  return {
    scan: scanOf(state),
    values: [
      stateNumbers[state],
      ...place,
      scanBudget + 1,
      kinds ?? null,
      tag ?? null,
      cause ?? null,
      mendable === true,
      after ?? null,
      before ?? null,
      limit,
    ],
  }
}

function scanOf(state: JobState): string {
  if (state === 'pending') return 'scanPending'
  if (state === 'running') return 'scanRunning'
  if (state === 'completed') return 'scanCompleted'
  return isFinal(state) ? 'scanShelvedBack' : 'scanShelved'
}

/** Hits come first, then the last rows that were looked at. */
export function found({ filter, limit, cursor }: JobQuery, rows: readonly FoundRow[]): Found {
  const hits = rows.filter(({ hit }) => hit)
  const looked = rows.filter(({ hit }) => !hit)
  const last = looked.at(-1)
  const ids = hits.map(({ id }) => id)
  if (last === undefined) return { ids, cursor: undefined }
  const lastHit = hits.at(-1)
  if (hits.length >= limit) {
    const stopped = lastHit ?? undefined
    if (stopped === undefined) return { ids, cursor: cursor ?? start(filter) }
    return { ids, cursor: stopped.nth < last.nth ? writeCursor(filter.state, stopped) : undefined }
  }
  const over = last.nth > scanBudget
  return { ids, cursor: over ? writeCursor(filter.state, looked[0] as FoundRow) : undefined }
}

function start({ state }: JobFilter): string {
  return [state, ...readCursor(state, undefined)].join(':')
}

function writeCursor(state: JobState, { a, b, c, d }: FoundRow): string {
  return [state, a, b, c, d].join(':')
}

/** Without a cursor, the place before the first job: finished jobs are listed newest first. */
function readCursor(state: JobState, cursor: string | undefined): Place {
  if (cursor === undefined) {
    if (isFinal(state)) return [Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER, 0, 0]
    return state === 'pending'
      ? [0, 0, 0, -1]
      : state === 'running'
        ? [-1, 0, 0, 0]
        : [Number.NEGATIVE_INFINITY, -1, 0, 0]
  }
  const [of, ...numbers] = cursor.split(':')
  const [a = Number.NaN, b = Number.NaN, c = Number.NaN, d = Number.NaN] = numbers.map((text) =>
    Number(text || 'none'),
  )
  if (of !== state || numbers.length !== 4 || Number.isNaN(a + b + c + d)) {
    throw new MillraceError(
      'INVALID_OPTION',
      `cursor is ${show(cursor)}; expected one that a list of ${state} jobs returned`,
      {
        field: 'cursor',
        value: cursor,
      },
    )
  }
  return [a, b, c, d]
}
