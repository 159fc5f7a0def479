import { bounds } from '../../../core/bounds.js'
import type { Failure } from '../../../core/job.js'
import { clean } from '../../../core/text.js'
import type { Causes } from '../../ledger/causes.js'
import { type Entry, storyOf } from '../../ledger/entry.js'

interface Death {
  readonly cause: string
  readonly name: string
  readonly message: string
  readonly at: number
  readonly sample: string
}

/** Deaths and resurrections, in the order in which they happened; the rows only count them. */
export class PagedCauses implements Causes {
  readonly changes: ({ readonly add: Death } | { readonly remove: string })[] = []

  add(entry: Entry, failure: Failure, now: number): void {
    storyOf(entry).cause = failure.cause
    const message = clean(failure.message, bounds.reasonText)
    this.changes.push({
      add: { cause: failure.cause, name: entry.job.name, message, at: now, sample: entry.job.id },
    })
  }

  delete(entry: Entry): void {
    const cause = entry.story?.cause
    if (cause === undefined) return
    storyOf(entry).cause = undefined
    this.changes.push({ remove: cause })
  }
}
