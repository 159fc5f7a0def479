import { Json, type Value } from '../../../databases/postgres/literal.js'
import { newToken } from '../../../system/ids.js'
import type { StoredJob } from '../../page/job-row.js'
import type { LinkRow } from '../../page/links.js'
import { separator } from '../../page/separator.js'

/** A statement of write.sql with its values. */
export interface Writing {
  readonly statement: string
  readonly values: readonly Value[]
  /** What becomes of its answer. */
  take?(rows: readonly never[]): void
}

/** What is to be written, in this order. */
export class Writings {
  readonly all: Writing[] = []

  add(statement: string, ...values: Value[]): void {
    this.all.push({ statement, values })
  }

  rows(statement: string, rows: readonly unknown[]): void {
    if (rows.length > 0) this.add(statement, new Json(rows))
  }

  keys(statement: string, keys: readonly string[] | readonly number[]): void {
    if (keys.length > 0) this.add(statement, keys)
  }
}

/** A job that has to pass gates, where it waits. */
export interface Wait {
  readonly seq: number
  readonly place: number
  readonly kind: number
  readonly rank: number
  readonly gated: boolean
  readonly special: boolean
  readonly gates: string
}

/** As lists: far cheaper than rows, on both sides. */
export function addJobs(jobs: readonly StoredJob[], out: Writings): void {
  const [first] = jobs
  if (first === undefined) return
  const apart = separatorFor(
    jobs,
    ({ input, overrides, metadata, rest }) => has(input) || has(overrides) || has(metadata) || has(rest),
  )
  const texts = (of: (job: StoredJob) => string | null) => listOf(jobs, of, apart)
  const numbers = (of: (job: StoredJob) => number | null) =>
    jobs.some((job) => of(job) !== null) ? jobs.map(of) : null
  out.add(
    'addJobs',
    jobs.map(({ seq }) => seq),
    first.created_at,
    jobs.map(({ kind }) => kind),
    jobs.map(({ max_attempts }) => max_attempts),
    jobs.map(({ max_crashes }) => max_crashes),
    jobs.map(({ state }) => state),
    jobs.map(({ special }) => Number(special)),
    jobs.map(({ id }) => id).join(apart),
    jobs.map(({ input }) => input).join(apart),
    numbers(({ rank }) => rank),
    // What arrived may be at its end by now.
    numbers(({ finished_at }) => finished_at),
    numbers(({ child_of }) => child_of),
    texts(({ overrides }) => overrides),
    texts(({ tags }) => tags),
    texts(({ search }) => search),
    texts(({ metadata }) => metadata),
    apart,
    ...unlessSame(jobs, ({ rest }) => rest, apart),
  )
}

/** A text that is in none of theirs. */
function separatorFor<T>(items: readonly T[], holdsUsual: (item: T) => boolean): string {
  return items.some(holdsUsual) ? `${separator}${newToken()}${separator}` : separator
}

function has(text: string | null): boolean {
  return text?.includes(separator) === true
}

export function addLinks(links: readonly LinkRow[], out: Writings): void {
  if (links.length === 0) return
  const apart = separatorFor(links, ({ fan, result, state }) => has(fan) || has(result) || has(state))
  const list = (of: (link: LinkRow) => string | null) => listOf(links, of, apart)
  const [states, sameState] = unlessSame(links, ({ state }) => state, apart)
  out.add(
    'addLinks',
    links.map(({ parent }) => parent),
    links.map(({ child }) => child).join(apart),
    list(({ fan }) => fan),
    links.some(({ ended_at }) => ended_at !== null) ? links.map(({ ended_at }) => ended_at) : null,
    list(({ result }) => result),
    states,
    apart,
    sameState,
  )
}

function listOf<T>(items: readonly T[], of: (item: T) => string | null, apart: string): string | null {
  return items.some((item) => of(item) !== null) ? items.map((item) => of(item) ?? '').join(apart) : null
}

/** As a list, or as one for all. */
function unlessSame<T>(
  items: readonly T[],
  of: (item: T) => string | null,
  apart: string,
): [list: string | null, same: string | null] {
  const first = of(items[0] as T)
  return items.every((item) => of(item) === first) ? [null, first] : [listOf(items, of, apart), null]
}

export function addWaits(waits: readonly Wait[], out: Writings): void {
  if (waits.length === 0) return
  out.add(
    'wait',
    waits.map(({ seq }) => seq),
    waits.map(({ place }) => place),
    waits.map(({ kind }) => kind),
    waits.map(({ rank }) => rank),
    waits.map(({ gated }) => Number(gated)),
    waits.map(({ special }) => Number(special)),
    waits.map(({ gates }) => gates).join(','),
  )
}
