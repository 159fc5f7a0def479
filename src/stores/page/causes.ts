import { bounds } from '../../core/bounds.js'
import type { Failure } from '../../core/job.js'
import { clean } from '../../core/text.js'
import type { Causes } from '../ledger/causes.js'
import { type Entry, storyOf } from '../ledger/entry.js'

interface Death {
  readonly cause: string
  readonly name: string
  readonly message: string
  readonly at: number
  readonly sample: string
}

/** Deaths and resurrections, in the order in which they happened; the rows only count them. */
export class PagedCauses implements Causes {
  readonly #changes: ({ readonly add: Death } | { readonly remove: string })[] = []

  add(entry: Entry, failure: Failure, now: number): void {
    storyOf(entry).cause = failure.cause
    const message = clean(failure.message, bounds.reasonText)
    this.#changes.push({
      add: { cause: failure.cause, name: entry.job.name, message, at: now, sample: entry.job.id },
    })
  }

  delete(entry: Entry): void {
    const cause = entry.story?.cause
    if (cause === undefined) return
    storyOf(entry).cause = undefined
    this.#changes.push({ remove: cause })
  }

  /** By cause: how many died of it, and how many no longer are dead of it. */
  tally(): { readonly died: readonly DiedRow[]; readonly rose: readonly { cause: string; count: number }[] } {
    const died = new Map<string, DiedRow>()
    const rose = new Map<string, number>()
    for (const change of this.#changes) {
      if ('remove' in change) rose.set(change.remove, (rose.get(change.remove) ?? 0) + 1)
      else died.set(change.add.cause, diedRow(change.add, died.get(change.add.cause)))
    }
    return { died: [...died.values()], rose: Array.from(rose, ([cause, count]) => ({ cause, count })) }
  }
}

export interface DiedRow {
  readonly cause: string
  readonly name: string
  readonly message: string
  readonly first_at: number
  readonly last_at: number
  readonly sample: string
  readonly count: number
}

function diedRow({ cause, name, message, at, sample }: Death, before: DiedRow | undefined): DiedRow {
  return {
    cause,
    name: before?.name ?? name,
    message,
    first_at: before?.first_at ?? at,
    last_at: at,
    sample,
    count: (before?.count ?? 0) + 1,
  }
}
