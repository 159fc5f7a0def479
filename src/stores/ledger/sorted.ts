import { precedes, type Ranked, type Shelf } from './shelf.js'

const chunkSize = 512

/**
 * Items in order of rank, then of position in line. Kept in chunks: adding at the end and taking from the
 * front, which is what queues do nearly always, touch one small array; anything else is a binary search and
 * a short move. Unlike a heap it can be read in order from any place, in both directions, so that lists
 * need not sort.
 */
export class Sorted<T extends Ranked> implements Shelf<T> {
  /** None is empty. */
  readonly #chunks: T[][] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  get isEmpty(): boolean {
    return this.#size === 0
  }

  get first(): T | undefined {
    return this.#chunks[0]?.[0]
  }

  add(item: T): void {
    this.#size++
    const last = this.#chunks[this.#chunks.length - 1]
    if (last === undefined) this.#chunks.push([item])
    else if (precedes(item, last[last.length - 1] as T)) this.#addBetween(item)
    else if (last.length < chunkSize) last.push(item)
    else this.#chunks.push([item])
  }

  delete(item: T): boolean {
    const at = this.#chunkFor(item.rank, item.seq)
    const chunk = this.#chunks[at]
    if (chunk === undefined) return false
    const index = indexFor(chunk, item.rank, item.seq)
    const found = chunk[index]
    if (found?.seq !== item.seq || found.rank !== item.rank) return false
    this.#size--
    if (chunk.length === 1) this.#chunks.splice(at, 1)
    else chunk.splice(index, 1)
    return true
  }

  /** Removes the first items: at least one if there is any, `count` at most. */
  take(count: number): T[] {
    const chunk = this.#chunks[0]
    if (chunk === undefined) return []
    const taken = count < chunk.length ? chunk.splice(0, Math.max(1, count)) : chunk
    if (taken === chunk) this.#chunks.shift()
    this.#size -= taken.length
    return taken
  }

  /** In order, from the first one behind this place. */
  *after(rank: number, seq: number): Generator<T, void> {
    for (let at = this.#chunkFor(rank, seq); at < this.#chunks.length; at++) {
      const chunk = this.#chunks[at] as T[]
      for (let i = indexFor(chunk, rank, seq); i < chunk.length; i++) {
        const item = chunk[i] as T
        if (item.seq !== seq || item.rank !== rank) yield item
      }
    }
  }

  /** In reverse, from the last one before this place. */
  *before(rank: number, seq: number): Generator<T, void> {
    for (let at = Math.min(this.#chunkFor(rank, seq), this.#chunks.length - 1); at >= 0; at--) {
      const chunk = this.#chunks[at] as T[]
      for (let i = indexFor(chunk, rank, seq) - 1; i >= 0; i--) yield chunk[i] as T
    }
  }

  #addBetween(item: T): void {
    const at = this.#chunkFor(item.rank, item.seq)
    const chunk = this.#chunks[at] as T[]
    chunk.splice(indexFor(chunk, item.rank, item.seq), 0, item)
    if (chunk.length > chunkSize) this.#chunks.splice(at + 1, 0, chunk.splice(chunkSize / 2))
  }

  /** The first chunk that ends at this place or behind it. */
  #chunkFor(rank: number, seq: number): number {
    let low = 0
    let high = this.#chunks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const chunk = this.#chunks[middle] as T[]
      if (isBefore(chunk[chunk.length - 1] as T, rank, seq)) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The first index at this place or behind it. */
function indexFor(chunk: readonly Ranked[], rank: number, seq: number): number {
  let low = 0
  let high = chunk.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(chunk[middle] as Ranked, rank, seq)) low = middle + 1
    else high = middle
  }
  return low
}

function isBefore(item: Ranked, rank: number, seq: number): boolean {
  return item.rank < rank || (item.rank === rank && item.seq < seq)
}
