import { type Lines, precedes, type Ranked, type Shelf, start } from '../ledger/shelf.js'
import { Sorted } from '../ledger/sorted.js'
import type { WindowNeed } from './needs.js'
import type { Page } from './page.js'

/** Where the things on a shelf come from. */
export interface Source<T> {
  readonly shelf: string
  readonly scope: WindowNeed['scope']
  /** Of a row that was read. */
  item(row: unknown): T
  /** Of the same row, without making anything of it. */
  seq(row: unknown): number
  /** How many to read when nothing is known of how many are needed. */
  readonly count?: number
}

/** A shelf that is read from a place on as far as it is looked at, with what this try has put on it and taken away. */
export class PagedShelf<T extends Ranked> implements Shelf<T> {
  readonly #page: Page
  readonly #source: Source<T>
  readonly #added = new Sorted<T>()
  readonly #removed = new Set<number>()
  /** It was made in this try: there is nothing to read. */
  readonly #isNew: boolean

  constructor(page: Page, source: Source<T>, isNew = false) {
    this.#page = page
    this.#source = source
    this.#isNew = isNew
  }

  get isEmpty(): boolean {
    return this.first === undefined
  }

  get first(): T | undefined {
    const [first] = this.after(start.rank, start.seq)
    return first
  }

  add(item: T): void {
    this.#added.add(item)
  }

  delete(item: T): void {
    if (!this.#added.delete(item)) this.#removed.add(item.seq)
  }

  take(count: number): T[] {
    const taken: T[] = []
    for (const item of this.after(start.rank, start.seq, count)) {
      taken.push(item)
      if (taken.length >= count) break
    }
    for (const item of taken) this.delete(item)
    return taken
  }

  /** What it has read and what was added, each in order. */
  *after(rank: number, seq: number, count = this.#source.count ?? 1): Generator<T, void> {
    const added = this.#added.after(rank, seq)
    let next = added.next().value as T | undefined
    for (const item of this.#stored({ rank, seq }, count)) {
      while (next !== undefined && precedes(next, item)) {
        yield next
        next = added.next().value as T | undefined
      }
      yield item
    }
    while (next !== undefined) {
      yield next
      next = added.next().value as T | undefined
    }
  }

  *#stored(from: Ranked, count: number): Generator<T, void> {
    if (this.#isNew) return
    const { shelf, scope } = this.#source
    const window = this.#page.window(shelf, scope, from)
    const rows = window?.rows ?? []
    for (const row of rows) if (!this.#removed.has(this.#source.seq(row))) yield this.#source.item(row)
    if (window?.isComplete !== true)
      this.#page.lacks({ shelf, scope, from, count: rows.length + Math.max(count, rows.length) + 1 })
  }
}

/** Shelves by key. */
export class PagedLines<T extends Ranked> implements Lines<T> {
  readonly #page: Page
  readonly #shelf: string
  readonly #source: Pick<Source<T>, 'item' | 'seq'>
  readonly #lines = new Map<string, PagedShelf<T>>()

  constructor(page: Page, shelf: string, source: Pick<Source<T>, 'item' | 'seq'>) {
    this.#page = page
    this.#shelf = shelf
    this.#source = source
  }

  add(key: string, item: T): void {
    this.#line(key).add(item)
  }

  delete(key: string, item: T): void {
    this.#line(key).delete(item)
  }

  after(key: string, { rank, seq }: Ranked, count: number): Iterable<T> {
    return this.#line(key).after(rank, seq, count)
  }

  #line(key: string): PagedShelf<T> {
    let line = this.#lines.get(key)
    if (line === undefined) {
      line = new PagedShelf(this.#page, { shelf: this.#shelf, scope: [key], ...this.#source })
      this.#lines.set(key, line)
    }
    return line
  }
}
