import { answered, deliver, type SignalWait, type Wait } from '../../core/step.js'
import { type Entry, storyOf } from './entry.js'
import { isWaiting } from './parenthood.js'
import { endOverdue, writeSteps } from './steps.js'
import type { Tables } from './tables.js'

/** Blocked jobs that wait for signals, by key, in the order in which they began to. */
export class Waiters {
  readonly #byKey = new Map<string, Set<Entry>>()

  of(key: string): Iterable<Entry> {
    return this.#byKey.get(key) ?? []
  }

  add(entry: Entry, waits: readonly SignalWait[]): void {
    storyOf(entry).waits = waits
    for (const { key } of waits) {
      const entries = this.#byKey.get(key) ?? new Set()
      this.#byKey.set(key, entries.add(entry))
    }
  }

  delete(entry: Entry): void {
    const waits = entry.story?.waits
    if (waits === undefined) return
    storyOf(entry).waits = undefined
    for (const { key } of waits) {
      const entries = this.#byKey.get(key)
      entries?.delete(entry)
      if (entries?.size === 0) this.#byKey.delete(key)
    }
  }
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
