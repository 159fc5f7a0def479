import { answered, deliver, type SignalWait, type Wait } from '../../core/step.js'
import { type Entry, storyOf } from './entry.js'
import { isWaiting } from './parenthood.js'
import { type Lines, start } from './shelf.js'
import { endOverdue, writeSteps } from './steps.js'
import type { Tables } from './tables.js'

/** A job among those that wait for signals of one key. */
export interface Waiter {
  readonly rank: number
  readonly seq: number
  readonly entry: Entry
}

/** Blocked jobs that wait for signals, by key, in the order in which they began to. */
export class Waiters {
  readonly #lines: Lines<Waiter>
  readonly #nextSeq: () => number

  constructor(lines: Lines<Waiter>, nextSeq: () => number) {
    this.#lines = lines
    this.#nextSeq = nextSeq
  }

  *of(key: string, count: number): Generator<Entry, void> {
    for (const { entry } of this.#lines.after(key, start, count)) yield entry
  }

  add(entry: Entry, waits: readonly SignalWait[]): void {
    const story = storyOf(entry)
    story.waits = waits
    if (waits.length === 0) return
    story.waiter = this.#nextSeq()
    for (const key of keysOf(waits)) this.#lines.add(key, waiter(entry))
  }

  delete(entry: Entry): void {
    const waits = entry.story?.waits
    if (waits === undefined) return
    for (const key of keysOf(waits)) this.#lines.delete(key, waiter(entry))
    storyOf(entry).waits = undefined
  }
}

function keysOf(waits: readonly SignalWait[]): Set<string> {
  return new Set(waits.map(({ key }) => key))
}

export function waiter(entry: Entry): Waiter {
  return { rank: 0, seq: entry.story?.waiter ?? 0, entry }
}

/** Where a job goes whose run waits: it is ready again at once when something of that is there already. */
export function beginWait(tables: Tables, entry: Entry, wait: Wait, now: number): 'blocked' | 'pending' {
  const came = receive(tables, entry, wait.signals, now)
  const over = endOverdue(entry, now) || (wait.until ?? Number.POSITIVE_INFINITY) <= now
  const parenthood = entry.story?.parenthood
  const isFanOver = wait.fans.some((fan) => parenthood?.isOver(fan) !== false)
  if (came || over || isFanOver || (wait.children && !isWaiting(entry))) return 'pending'
  tables.waiters.add(entry, wait.signals)
  return 'blocked'
}

/** Writes the signals that are kept for these waits as the memos of their steps; tells whether there were any. */
function receive(tables: Tables, entry: Entry, waits: readonly SignalWait[], now: number): boolean {
  const deliveries = deliver(waits, (key, after) => tables.mailbox.next(key, after, now))
  if (deliveries.length === 0) return false
  writeSteps(
    tables,
    entry,
    deliveries.map((delivery) => answered(delivery, now)),
  )
  return true
}

/** Makes a blocked job ready if there is a signal for it. */
export function wakeBySignal(tables: Tables, entry: Entry, now: number): boolean {
  const came = receive(tables, entry, entry.story?.waits ?? [], now)
  if (came) wake(tables, entry, now)
  return came
}

/** Makes a job that waits ready, whatever for and whatever the reason. */
export function wake(tables: Tables, entry: Entry, now: number): void {
  if (entry.state === 'blocked') endOverdue(entry, now)
  tables.leave(entry)
  storyOf(entry).readyAt = now
  tables.enter(entry, 'pending', 0)
}
