import { bounds } from '../../core/bounds.js'
import type { Failure } from '../../core/job.js'
import type { Cause } from '../../core/store.js'
import { clean } from '../../core/text.js'
import type { Causes } from '../ledger/causes.js'
import { type Entry, storyOf } from '../ledger/entry.js'
import { Sorted } from '../ledger/sorted.js'

interface Group {
  readonly cause: string
  readonly name: string
  message: string
  readonly firstAt: number
  lastAt: number
  sample: string
  readonly members: Sorted<Entry>
}

export class MemoryCauses implements Causes {
  readonly #groups = new Map<string, Group>()

  members(cause: string): Sorted<Entry> | undefined {
    return this.#groups.get(cause)?.members
  }

  add(entry: Entry, failure: Failure, now: number): void {
    storyOf(entry).cause = failure.cause
    const message = clean(failure.message, bounds.reasonText)
    const sample = entry.job.id
    let group = this.#groups.get(failure.cause)
    if (group === undefined) {
      const members = new Sorted<Entry>()
      group = {
        cause: failure.cause,
        name: entry.job.name,
        message,
        firstAt: now,
        lastAt: now,
        sample,
        members,
      }
      this.#groups.set(failure.cause, group)
    }
    group.message = message
    group.lastAt = now
    group.sample = sample
    group.members.add(entry)
  }

  delete(entry: Entry): void {
    const cause = entry.story?.cause
    const group = cause === undefined ? undefined : this.#groups.get(cause)
    if (group === undefined) return
    storyOf(entry).cause = undefined
    group.members.delete(entry)
    if (group.members.size === 0) this.#groups.delete(group.cause)
  }

  /** The most recent first. */
  list(): Cause[] {
    return [...this.#groups.values()]
      .sort((a, b) => b.lastAt - a.lastAt || (a.cause < b.cause ? -1 : 1))
      .slice(0, bounds.page)
      .map(({ members, ...group }) => ({ ...group, count: members.size }))
  }
}
