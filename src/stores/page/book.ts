import type { Book } from '../ledger/shelf.js'
import type { Page } from './page.js'

/** How a thing is stored: a row, in words that json_to_recordset understands. */
export interface Codec<T> {
  readonly book: string
  read(row: Record<string, unknown>): T
  write(value: T): Record<string, unknown>
}

/** Things by key that are read one by one, and written if they differ from what was read. */
export class PagedBook<T> implements Book<T> {
  readonly #page: Page
  readonly #codec: Codec<T>
  readonly #values = new Map<string, T | undefined>()

  constructor(page: Page, codec: Codec<T>) {
    this.#page = page
    this.#codec = codec
  }

  get(key: string): T | undefined {
    if (this.#values.has(key)) return this.#values.get(key)
    const row = this.#page.row<Record<string, unknown>>(this.#codec.book, key)
    return row === null ? undefined : this.#adopt(key, row)
  }

  /** Of a row that came with a shelf. */
  ofRow(row: unknown): T {
    const { key } = row as { key: string }
    const known = this.#values.get(key)
    if (known !== undefined) return known
    this.#page.putRow(this.#codec.book, key, row)
    return this.#adopt(key, row as Record<string, unknown>)
  }

  set(key: string, value: T): void {
    this.#values.set(key, value)
  }

  delete(key: string): void {
    this.#values.set(key, undefined)
  }

  /** What is to be written. */
  changes(): { readonly kept: Record<string, unknown>[]; readonly gone: string[] } {
    const kept: Record<string, unknown>[] = []
    const gone: string[] = []
    for (const [key, value] of this.#values) {
      const before = this.#page.peek<Record<string, unknown>>(this.#codec.book, key)
      if (value === undefined) {
        if (before !== null) gone.push(key)
        continue
      }
      const row = { key, ...this.#codec.write(value) }
      if (!before || !isSame(row, before)) kept.push(row)
    }
    return { kept, gone }
  }

  #adopt(key: string, row: Record<string, unknown>): T {
    const value = this.#codec.read(row)
    this.#values.set(key, value)
    return value
  }
}

export function isSame(row: Record<string, unknown>, before: Record<string, unknown>): boolean {
  return Object.keys(row).every((column) => (row[column] ?? null) === (before[column] ?? null))
}
