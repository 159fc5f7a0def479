import { start } from '../ledger/shelf.js'
import { Needs, type WindowNeed } from './needs.js'

/** Rows that many verbs have in common. */
export function isHabitual(book: string): boolean {
  return book === 'gate' || book === 'loan'
}

/** Read with every page. */
const always = new Set(['queues', 'kinds', 'number'])

/** Sheets that are dear, or depend on the time, which is not known before the first message. */
const never = new Set(['running', 'counts', 'lapsed', 'keysOfRunning'])

/** Shelves of one parent, signal or waiter: the next verb asks for others. */
const changing = new Set(['links', 'waiter', 'mailLine'])

/** More is not read unasked. */
const mostWindows = 32
const mostKeys = 1_000
/** Whose habits are remembered. */
const mostNames = 200

/**
 * What verbs that are alike have needed: the first message asks for all of it. A guess; what it lacks is asked for then, and
 * what is too much is read for nothing.
 */
export class Habits {
  readonly #byName = new Map<string, Needs>()

  /** Adds to what is known to be needed; `count` jobs are likely to be asked for. */
  expect(name: string, needs: Needs, count: number): void {
    const usual = this.#byName.get(name)
    if (usual === undefined) return
    for (const sheet of usual.sheets) needs.sheets.add(sheet)
    for (const [book, keys] of usual.keys) for (const key of keys) needs.key(book, key)
    for (const window of usual.windows.values())
      needs.window(holdsJobs(window.shelf) ? { ...window, count: count + 1 } : window)
  }

  learn(name: string, found: Needs): void {
    const usual = new Needs()
    for (const sheet of found.sheets) if (!always.has(sheet) && !never.has(sheet)) usual.sheets.add(sheet)
    for (const [book, keys] of found.keys)
      for (const key of [...keys].slice(0, mostKeys)) usual.key(book, key)
    for (const window of found.windows.values())
      if (usual.windows.size < mostWindows && isFirst(window)) usual.window(window)
    this.#byName.delete(name)
    this.#byName.set(name, usual)
    for (const oldest of this.#byName.keys()) {
      if (this.#byName.size <= mostNames) return
      this.#byName.delete(oldest)
    }
  }
}

function holdsJobs(shelf: string): boolean {
  return shelf === 'line' || shelf === 'place'
}

function isFirst({ shelf, scope, from }: WindowNeed): boolean {
  // Behind a gate, a negative number, others are parked each time.
  if (changing.has(shelf) || (shelf === 'place' && Number(scope[0]) < 0)) return false
  return from.rank === start.rank && from.seq === start.seq
}
