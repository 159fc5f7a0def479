import { MillraceError, show } from '../../core/errors.js'
import { isFinal, type JobState } from '../../core/job.js'
import { markOf } from '../../core/search.js'
import type { JobFilter, JobQuery } from '../../core/store.js'
import type { Value } from '../../databases/postgres/literal.js'
import { stateNumbers } from '../page/job-row.js'
import { causeMark } from '../page/marks.js'

/** A place in a state's order: rank and position; line and position; or position alone. */
type Place = readonly [number, number, number, number]

/** What the functions of select.sql answer. */
interface FoundRow {
  /** Which of the state's scans found it. */
  readonly scan: number
  readonly id: string
  readonly a: number
  readonly b: number
  readonly c: number
  readonly d: number
  /** Otherwise the place up to which the scan has looked. */
  readonly hit: boolean
}

export interface Found {
  readonly ids: readonly string[]
  readonly cursor: string | undefined
}

/** `wanted`, as select.sql has it: one more than is asked for tells whether there are more. */
export function selection(
  { filter, limit, cursor }: JobQuery,
  kinds: readonly number[] | undefined,
): { statement: string; values: Value[] } {
  const { state, tag, field, cause, mendable, after, before } = filter
  const indexed = field?.indexed === true ? markOf(field) : undefined
  return {
    statement: `select/${state}`,
    values: [
      stateNumbers[state],
      ...readCursor(state, cursor),
      limit + 1,
      kinds ?? null,
      guideOf(filter, indexed),
      tag ?? null,
      indexed ?? null,
      cause ?? null,
      mendable === true,
      after ?? null,
      before ?? null,
      ...(field === undefined || indexed !== undefined
        ? [null, null]
        : [field.path.split('.'), JSON.stringify(field.value)]),
    ],
  }
}

/** The mark that leads to the fewest jobs, as far as can be told. */
function guideOf({ state, tag, cause }: JobFilter, indexed: string | undefined): string | null {
  return indexed ?? (cause !== undefined && state === 'dead' ? causeMark(cause) : tag) ?? null
}

/** Puts together what the scans found. None is good beyond the place where another one stopped. */
export function found({ filter, limit, cursor }: JobQuery, rows: readonly FoundRow[]): Found {
  const order = isFinal(filter.state) ? -1 : 1
  const inOrder = rows.toSorted((x, y) => order * compare(placeOf(x), placeOf(y)))
  const stop = inOrder.findIndex(({ hit }) => !hit)
  const hits = stop === -1 ? inOrder : inOrder.slice(0, stop)
  const page = hits.slice(0, limit)
  const last = hits.length > limit ? (page.at(-1) ?? 'start') : inOrder[stop]
  return {
    ids: page.map(({ id }) => id),
    cursor: last === 'start' ? (cursor ?? start(filter)) : last && writeCursor(filter.state, last),
  }
}

function placeOf({ a, b, c, d }: FoundRow): Place {
  return [a, b, c, d]
}

function compare(x: Place, y: Place): number {
  const i = x.findIndex((number, k) => number !== y[k])
  return i === -1 ? 0 : (x[i] as number) < (y[i] as number) ? -1 : 1
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
