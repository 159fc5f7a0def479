import type { Clock } from '../core/clock.js'
import type { Run } from './run.js'

/** One timer for all running jobs, set to the earliest deadline; starting a job costs a comparison. */
export class Deadlines {
  readonly #clock: Clock
  readonly #runs: ReadonlySet<Run>
  readonly #passed: (run: Run) => void
  #armedFor = Number.POSITIVE_INFINITY
  #cancel: (() => void) | undefined

  constructor(clock: Clock, runs: ReadonlySet<Run>, passed: (run: Run) => void) {
    this.#clock = clock
    this.#runs = runs
    this.#passed = passed
  }

  /** Called whenever a run's deadline was set. */
  watch(deadline: number): void {
    if (deadline < this.#armedFor) this.#arm(deadline)
  }

  stop(): void {
    this.#cancel?.()
    this.#armedFor = Number.POSITIVE_INFINITY
  }

  #arm(deadline: number): void {
    this.#cancel?.()
    this.#armedFor = deadline
    this.#cancel = this.#clock.after(Math.max(0, deadline - this.#clock.monotonic()), () => this.#fire())
  }

  #fire(): void {
    this.#armedFor = Number.POSITIVE_INFINITY
    const now = this.#clock.monotonic()
    let next = Number.POSITIVE_INFINITY
    for (const run of [...this.#runs]) {
      // Timers may be a fraction of a millisecond early.
      if (run.deadline <= now + 1) this.#passed(run)
      if (this.#runs.has(run)) next = Math.min(next, run.deadline)
    }
    if (next < Number.POSITIVE_INFINITY) this.#arm(next)
  }
}
