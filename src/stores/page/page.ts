import { isHabitual } from './habits.js'
import { childIn } from './links.js'
import { Missing, Needs, type WindowNeed, windowName } from './needs.js'
import { covers } from './spans.js'
import type { WorkerRow } from './workers.js'

export interface Arrival {
  readonly n: number
  /** JSON. */
  readonly jobs: string
}

/** Rows of a shelf, in order, from a place on. */
export interface Window {
  readonly rows: readonly unknown[]
  /** Nothing comes behind them. */
  readonly isComplete: boolean
}

/**
 * What a transaction has read so far. It stays as it was read, however often a verb is tried on it; a try works on
 * copies.
 */
export class Page {
  /** By book and key; null for what does not exist. */
  readonly #rows = new Map<string, Map<string, unknown>>()
  readonly #windows = new Map<string, Window>()
  readonly #sheets = new Map<string, unknown>()
  readonly positions: number[] = []
  /** Nothing is done by count: what waits is looked at as a whole. */
  readonly isWhole: boolean
  /** Ids that no job has had so far, as far as the caller knows; if one has, nothing can be written. */
  readonly #fresh: ReadonlySet<string>
  /** Jobs in places that are more than heads of a line, by position. */
  readonly entire = new Map<number, unknown>()
  /** Jobs that have parents, of which these have not been read. */
  readonly children = new Set<string>()
  /** Jobs far above those that were asked for: read in one go, when a verb goes up a long line. */
  readonly ancestors = new Set<string>()
  /** Jobs of callers whose transactions have committed, and that have not been admitted. */
  arrivals: readonly Arrival[] = []
  /** The store's clock: one look for the whole transaction. */
  now = 0
  /** Whether something is to be changed. */
  changes = true
  /** What the present try misses. */
  needs = new Needs()
  /** What it has found and another time is likely to look for again; see habits.ts. */
  found = new Needs()

  constructor(isWhole = false, fresh: ReadonlySet<string> = new Set()) {
    this.isWhole = isWhole
    this.#fresh = fresh
  }

  row<T>(book: string, key: string): T | null {
    const row = this.#rows.get(book)?.get(key)
    if (row !== undefined) {
      if (isHabitual(book)) this.found.key(book, key)
      return row as T | null
    }
    if (this.#fresh.size > 0 && this.#isFresh(book, key)) return null
    this.needs.key(book, key)
    throw new Missing()
  }

  #isFresh(book: string, key: string): boolean {
    if (book === 'job') return this.#fresh.has(key)
    return book === 'link' && this.#fresh.has(childIn(key))
  }

  /** The same, if it happens to be there. */
  peek<T>(book: string, key: string): T | null | undefined {
    return this.#rows.get(book)?.get(key) as T | null | undefined
  }

  /** All of a book that happen to be there, and exist. */
  rowsOf<T>(book: string): T[] {
    return [...(this.#rows.get(book)?.values() ?? [])].filter((row) => row !== null) as T[]
  }

  window(shelf: string, scope: WindowNeed['scope'], from: WindowNeed['from']): Window | undefined {
    const window = this.#windows.get(windowName({ shelf, scope, from }))
    if (window !== undefined) this.found.window({ shelf, scope, from, count: window.rows.length + 1 })
    return window
  }

  sheet<T>(name: string): T {
    const sheet = this.#sheets.get(name)
    if (sheet !== undefined) {
      this.found.sheets.add(name)
      return sheet as T
    }
    this.needs.sheets.add(name)
    throw new Missing()
  }

  lacks(need: WindowNeed): never {
    this.needs.window(need)
    throw new Missing()
  }

  /** Whether a worker that was read has it. */
  isLeased(seq: number): boolean {
    for (const worker of this.#rows.get('worker')?.values() ?? [])
      if ((worker as WorkerRow | null)?.leases.some(({ spans }) => spans !== undefined && covers(spans, seq)))
        return true
    return false
  }

  putRow(book: string, key: string, row: unknown): void {
    const rows = this.#rows.get(book) ?? new Map<string, unknown>()
    this.#rows.set(book, rows.set(key, row))
  }

  putWindow(need: WindowNeed, window: Window): void {
    this.#windows.set(windowName(need), window)
  }

  putSheet(name: string, sheet: unknown): void {
    this.#sheets.set(name, sheet)
  }
}
