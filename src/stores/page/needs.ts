import type { Ranked } from '../ledger/shelf.js'

/** A verb looked at something that has not been read. It is done again from the start when that is there. */
export class Missing extends Error {
  constructor() {
    // Many are thrown, and nobody reads where.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super('not read yet')
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** What was read is no longer so: all of it is read again. */
export class Stale extends Error {
  constructor() {
    super('changed while it was read')
  }
}

/** A part of a shelf, from a place on. */
export interface WindowNeed {
  readonly shelf: string
  readonly scope: readonly (string | number)[]
  readonly from: Ranked
  readonly count: number
}

/** What one try of a verb has missed. */
export class Needs {
  /** By book. */
  readonly keys = new Map<string, Set<string>>()
  readonly windows = new Map<string, WindowNeed>()
  /** Small tables that are read as a whole. */
  readonly sheets = new Set<string>()
  /** Positions for new jobs. */
  positions = 0

  get isEmpty(): boolean {
    return this.keys.size + this.windows.size + this.sheets.size + this.positions === 0
  }

  key(book: string, key: string): void {
    const keys = this.keys.get(book) ?? new Set()
    this.keys.set(book, keys.add(key))
  }

  window(need: WindowNeed): void {
    const name = windowName(need)
    const count = Math.max(need.count, this.windows.get(name)?.count ?? 0)
    this.windows.set(name, { ...need, count })
  }
}

export function windowName({ shelf, scope, from }: Omit<WindowNeed, 'count'>): string {
  return `${shelf} ${scope.join(' ')} ${from.rank} ${from.seq}`
}
