import type { ClaimedJob } from '../core/job.js'
import { type Batch, type Batches, goesFirst } from './batch.js'
import type { Unstarted } from './fetch.js'
import { Waiting } from './waiting.js'

/** Jobs that were claimed and have not started: those that wait for a slot of their own, and those in batches. */
export class UnstartedJobs implements Unstarted {
  readonly #waiting = new Waiting()
  readonly #batches: Batches

  constructor(batches: Batches) {
    this.#batches = batches
  }

  get waiting(): number {
    return this.#waiting.size
  }

  get collected(): number {
    return this.#batches.size
  }

  get complete(): number {
    return this.#batches.complete
  }

  get lacking(): number {
    return this.#batches.lacking
  }

  all(): readonly ClaimedJob[] {
    return [...this.#waiting.all(), ...this.#batches.jobs()]
  }

  /** `more`: the store may have more. */
  add(claimed: readonly ClaimedJob[], more: boolean): void {
    this.#waiting.add(this.#batches.collect(claimed, more))
  }

  /** The single job or due batch whose turn it is, in the order of their claims. */
  next(mayStart: (lane: number) => boolean): ClaimedJob | Batch | undefined {
    const job = this.#waiting.first
    const batch = this.#batches.next(mayStart)
    return batch !== undefined && (job === undefined || goesFirst(batch, job)) ? batch : job
  }

  /** What was `next` is no longer here. */
  takeNext(next: ClaimedJob | Batch): void {
    if (isBatch(next)) this.#batches.take(next)
    else this.#waiting.takeFirst()
  }

  remove(which: (job: ClaimedJob) => boolean): ClaimedJob[] {
    return [...this.#waiting.take(which), ...this.#batches.remove(which)]
  }

  removeAll(): ClaimedJob[] {
    return this.remove(() => true)
  }
}

export function isBatch(next: ClaimedJob | Batch): next is Batch {
  return 'jobs' in next
}
