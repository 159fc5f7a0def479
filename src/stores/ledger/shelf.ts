/** What the verbs keep things in. An engine decides where these really are: all in memory, or a page at a time. */

export interface Ranked {
  /** What orders it on its shelf; must not change while it is there. */
  readonly rank: number
  /** Position in line; unique. */
  readonly seq: number
}

/** Things in order of rank, then of position in line. */
export interface Shelf<T extends Ranked> {
  readonly isEmpty: boolean
  readonly first: T | undefined
  add(item: T): void
  delete(item: T): void
  /** Removes the first items: at least one if there is any, `count` at most. */
  take(count: number): T[]
  /** In order, from the first one behind this place; `count` says how many the caller is likely to look at. */
  after(rank: number, seq: number, count?: number): Iterable<T>
}

/** Shelves by key. */
export interface Lines<T extends Ranked> {
  add(key: string, item: T): void
  delete(key: string, item: T): void
  after(key: string, place: Ranked, count: number): Iterable<T>
}

/** Things by key. */
export interface Book<T> {
  get(key: string): T | undefined
  set(key: string, value: T): void
  delete(key: string): void
}

export function precedes(a: Ranked, b: Ranked): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.seq < b.seq)
}

/** The place before all others. */
export const start: Ranked = { rank: Number.NEGATIVE_INFINITY, seq: 0 }
