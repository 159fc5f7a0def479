import type { ClaimedJob } from '../core/job.js'

/** Jobs that were claimed and have no slot yet, oldest first. Taking the first one moves nothing. */
export class Waiting {
  #jobs: readonly ClaimedJob[] = []
  /** The first that is left. */
  #next = 0

  get size(): number {
    return this.#jobs.length - this.#next
  }

  get first(): ClaimedJob | undefined {
    return this.#jobs[this.#next]
  }

  all(): readonly ClaimedJob[] {
    return this.#jobs.slice(this.#next)
  }

  add(jobs: readonly ClaimedJob[]): void {
    this.#jobs = this.size === 0 ? jobs : [...this.all(), ...jobs]
    this.#next = 0
  }

  takeFirst(): void {
    this.#next++
  }

  take(which: (job: ClaimedJob) => boolean): ClaimedJob[] {
    const taken = this.all().filter(which)
    if (taken.length > 0) {
      this.#jobs = this.all().filter((job) => !which(job))
      this.#next = 0
    }
    return taken
  }
}
