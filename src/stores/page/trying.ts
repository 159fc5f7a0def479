import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { FinalState } from '../../core/job.js'
import type { Ranked } from '../ledger/shelf.js'
import type { Tokens } from '../ledger/token.js'
import { Needs } from './needs.js'
import type { Page } from './page.js'
import { PagedTables } from './tables.js'

/** Tries of one verb. Each reads something new. */
const mostTries = 1_000
const fewTries = 8

export type Verb<T> = (tables: PagedTables, now: number) => T

export interface Trying<T> {
  readonly page: Page
  readonly verb: Verb<T>
  /** Jobs that are likely to be asked for at once. */
  readonly count: number
  readonly renewsByTaking: boolean
  readonly lends?: boolean
  readonly tokens: Tokens
  /** Where the last look at surplus jobs ended; changed by the try that works. */
  readonly surplus: Map<FinalState, Ranked>
  read(needs: Needs): Promise<void>
}

/** What a verb came to, and the tables that it has changed. */
export interface Done<T> {
  readonly result: T
  readonly tables: PagedTables
}

/**
 * Tries a verb on what has been read so far; what it misses is read, all of it at once, and it is tried again from the
 * start.
 */
export async function tryOn<T>(trying: Trying<T>): Promise<Done<T>> {
  const { page, read } = trying
  for (let tries = 0; tries < mostTries; tries++) {
    const done = tryOnce(trying)
    if (done !== undefined) return done
    const ids = page.needs.keys.get('job')
    if (ids !== undefined) for (const id of page.children) page.needs.key('kin', id)
    await read(page.needs)
    if (tries >= fewTries && ids !== undefined) await readAncestors(trying, ids)
  }
  throw new MillraceError(
    'STORE_FAILED',
    `what was asked for is not done after ${mostTries} tries; do it in smaller parts`,
  )
}

/** Undefined if it missed something. */
function tryOnce<T>({ page, verb, surplus, ...options }: Trying<T>): Done<T> | undefined {
  page.needs = new Needs()
  page.found = new Needs()
  const looked = new Map(surplus)
  try {
    const tables = new PagedTables(page, frozen(page.now), { ...options, surplus: looked })
    const result = verb(tables, page.now)
    if (!page.needs.isEmpty) return undefined
    for (const [state, place] of looked) surplus.set(state, place)
    return { result, tables }
  } catch (error) {
    if (page.needs.isEmpty) throw error
    return undefined
  }
}

/** Reads parents of parents ahead: a long line of them would take a try for each. */
async function readAncestors<T>({ page, read }: Trying<T>, ids: ReadonlySet<string>): Promise<void> {
  const needs = new Needs()
  for (const id of ids) needs.key('ancestors', id)
  await read(needs)
  const all = new Needs()
  for (const id of page.ancestors) {
    if (page.peek('job', id) === undefined) all.key('job', id)
    all.key('kin', id)
  }
  if (!all.isEmpty) await read(all)
}

/** One look at the clock for a whole transaction. */
function frozen(now: number): Clock {
  return { now: () => now, monotonic: () => now, after: () => () => {} }
}
