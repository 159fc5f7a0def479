import { isMendable } from '../../core/child-failed.js'
import { MillraceError, show } from '../../core/errors.js'
import { type Failure, isFinal, type JobState } from '../../core/job.js'
import { hasField, markOf } from '../../core/search.js'
import type { JobFilter, JobQuery } from '../../core/store.js'
import { stateNumbers } from '../page/job-row.js'
import type { KindRow, QueueRow } from '../page/kinds.js'
import { causeMark } from '../page/marks.js'
import type { Page } from '../page/page.js'
import { type JobReply, type ReadJob, readJob, startIn } from './page/job-reply.js'
import type { Question } from './page/question.js'

/** A call looks at this many jobs at most; a filter that matches few gets a cursor to go on with. */
const scanBudget = 1_000

/** A place in a state's order: rank and position; queue or place, lane or turn, and position; or position alone. */
type Place = readonly [string, string, string]

interface Found {
  readonly ids: readonly string[]
  readonly rows: readonly ReadJob[]
  readonly cursor: string | undefined
}

/** What look.lua answers: jobs, each with its place; then whether there are more. */
type Answer = readonly [readonly (readonly [JobReply, string, string, string])[], number]

/** Asks for jobs in the order of their state, and keeps those that the filter wants. */
export function selecting(
  query: JobQuery,
  page: Page,
): { question: Omit<Question, 'take'>; found(answer: Answer): Found } {
  const { filter, limit, cursor } = query
  const place = readCursor(filter.state, cursor)
  const size = filter.name === undefined && isOnlyState(filter) ? limit : scanBudget
  return {
    question: { name: `scan${scanOf(filter.state)}`, values: [setOf(filter), ...place, size] },
    found([jobs, more]) {
      const isWanted = wanting(filter, page)
      const rows: ReadJob[] = []
      for (const [reply, ...at] of jobs) {
        const row = readJob(reply)
        if (!isWanted(row)) continue
        rows.push(row)
        const isLast = reply === jobs.at(-1)?.[0] && more === 0
        if (rows.length === limit)
          return { ...listed(rows), cursor: isLast ? undefined : writeCursor(filter.state, at) }
      }
      const last = jobs.at(-1)
      const end =
        more === 0 || last === undefined ? undefined : writeCursor(filter.state, [last[1], last[2], last[3]])
      return { ...listed(rows), cursor: end }
    },
  }
}

function listed(rows: readonly ReadJob[]) {
  return { ids: rows.map(({ id }) => id), rows }
}

function scanOf(state: JobState): string {
  if (state === 'pending') return 'Pending'
  if (state === 'running') return 'Running'
  return isFinal(state) ? 'Down' : 'Up'
}

function isOnlyState({ queue, tag, field, cause, mendable, after, before }: JobFilter): boolean {
  return (queue ?? tag ?? field ?? cause ?? mendable ?? after ?? before) === undefined
}

/** The set that leads to the fewest jobs, as far as can be told. */
function setOf({ state, queue, tag, field, cause }: JobFilter): string {
  if (state === 'pending') return queue ?? ''
  if (state === 'running') return ''
  const mark =
    field?.indexed === true ? markOf(field) : cause !== undefined && state === 'dead' ? causeMark(cause) : tag
  return mark === undefined ? `state:${stateNumbers[state]}` : `m:${stateNumbers[state]}:${mark}`
}

function wanting(filter: JobFilter, page: Page): (row: ReadJob) => boolean {
  const { state, tag, field, cause, mendable, after, before } = filter
  const kinds = kindsOf(page, filter)
  return (row) => {
    if (kinds !== undefined && !kinds.has(row.kind)) return false
    if (tag !== undefined && !list(row.tags).includes(tag)) return false
    if (field !== undefined && !hasField({ input: row.input, search: list(row.search) }, field)) return false
    if (cause !== undefined || mendable === true) {
      const rest = JSON.parse(row.rest ?? '{}') as { cause?: string; failure?: Failure }
      if (cause !== undefined && rest.cause !== cause) return false
      if (mendable === true && !isMendable(rest.failure)) return false
    }
    if (after === undefined && before === undefined) return true
    const at = timeOf(page, state, row)
    return (after === undefined || at >= after) && (before === undefined || at < before)
  }
}

function list(text: string | null): string[] {
  return text === null ? [] : (JSON.parse(text) as string[])
}

function kindsOf(page: Page, { queue, name }: JobFilter): ReadonlySet<number> | undefined {
  if (queue === undefined && name === undefined) return undefined
  const queues = page
    .sheet<readonly QueueRow[]>('queues')
    .filter((row) => queue === undefined || row.name === queue)
  const nums = new Set(queues.map(({ num }) => num))
  return new Set(
    page
      .sheet<readonly KindRow[]>('kinds')
      .filter((row) => nums.has(row.queue) && (name === undefined || row.name === name))
      .map(({ num }) => num),
  )
}

/** Due, started or finished; created for pending ones. */
function timeOf(page: Page, state: JobState, row: ReadJob): number {
  if (state === 'running') return Number(startIn(row.read) || page.now)
  if (state === 'scheduled' || state === 'retrying') return row.rank ?? 0
  if (state === 'blocked' && row.rank !== Number.POSITIVE_INFINITY) return row.rank ?? 0
  return row.finished_at ?? row.created_at
}

function writeCursor(state: JobState, place: Place): string {
  return [state, ...place].join(':')
}

/** Without a cursor, the place before the first job: finished jobs are listed newest first. */
function readCursor(state: JobState, cursor: string | undefined): Place {
  if (cursor === undefined) return isFinal(state) ? ['+inf', '', ''] : ['-inf', '-1', '-1']
  const [of, a = '', b = '', c = '', ...more] = cursor.split(':')
  const isNumber = (text: string) => /^(-?\d+(\.\d+)?(e[+-]?\d+)?|-?inf)$/.test(text)
  if (of !== state || more.length > 0 || ![a, b, c].every(isNumber)) {
    throw new MillraceError(
      'INVALID_OPTION',
      `cursor is ${show(cursor)}; expected one that a list of ${state} jobs returned`,
      { field: 'cursor', value: cursor },
    )
  }
  return [a, b, c]
}
