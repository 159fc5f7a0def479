import type { Lines, Ranked } from '../ledger/shelf.js'
import { Sorted } from '../ledger/sorted.js'

/** A shelf is there only while something is on it. */
export class MemoryLines<T extends Ranked> implements Lines<T> {
  readonly #byKey = new Map<string, Sorted<T>>()

  add(key: string, item: T): void {
    const line = this.#byKey.get(key) ?? new Sorted<T>()
    this.#byKey.set(key, line)
    line.add(item)
  }

  delete(key: string, item: T): void {
    const line = this.#byKey.get(key)
    line?.delete(item)
    if (line?.isEmpty) this.#byKey.delete(key)
  }

  after(key: string, { rank, seq }: Ranked): Iterable<T> {
    return this.#byKey.get(key)?.after(rank, seq) ?? []
  }
}
