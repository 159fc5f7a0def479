import type { Runtime } from '../client/runtime.js'
import { MillraceError } from '../core/errors.js'
import type { Outcome } from '../core/lifecycle.js'
import { Deadlines } from './deadlines.js'
import { concludeError } from './execute.js'
import type { Run } from './run.js'
import { openTooLong } from './transaction.js'

export interface TimeLimitOptions {
  readonly lease: number
  /** How long a handler that was told to stop has for it. */
  readonly abandonAfter: number
}

/**
 * Ends what takes too long, or was told to stop for another reason and does not: first its handler is told, then
 * the worker goes on without it.
 */
export class TimeLimits {
  readonly #runtime: Runtime
  readonly #options: TimeLimitOptions
  readonly #deadlines: Deadlines
  readonly #end: (run: Run, outcome: Outcome) => void

  constructor(
    runtime: Runtime,
    options: TimeLimitOptions,
    runs: ReadonlySet<Run>,
    end: (run: Run, outcome: Outcome) => void,
  ) {
    this.#runtime = runtime
    this.#options = options
    this.#deadlines = new Deadlines(runtime.clock, runs, (run) => this.overdue(run))
    this.#end = end
  }

  /** Its timeout counts from now. */
  startClock(run: Run, now: number): void {
    const { timeout } = run.policy
    if (timeout > 0 && run.stopped === undefined) this.#setDeadline(run, now + timeout)
  }

  /** While it stands in line for a sandbox. One that was told to stop has its own deadline. */
  stopClock(run: Run): void {
    if (run.stopped === undefined) run.deadline = Number.POSITIVE_INFINITY
  }

  /** While it is open nothing else is written, the renewal of the lease neither: it must end before that does. */
  transactionBegan(run: Run): void {
    const most = this.#options.lease / 2
    const until = this.#runtime.clock.monotonic() + most
    if (run.ended || run.stopped !== undefined || run.deadline <= until) return
    run.mostOpen = most
    this.#setDeadline(run, until)
  }

  /** The first time: tell the handler to stop. The second: it did not, or cannot, so go on without it. */
  overdue(run: Run): void {
    if (run.stopped === undefined) {
      this.stopRun(run, run.mostOpen === undefined ? timedOut(run) : openTooLong(run.mostOpen))
    } else {
      this.#abandon(run, run.stopped)
    }
  }

  stopRun(run: Run, reason: MillraceError): void {
    if (run.ended || run.stopped !== undefined) return
    run.stop(reason)
    this.#setDeadline(run, this.#runtime.clock.monotonic() + this.#options.abandonAfter)
  }

  stop(): void {
    this.#deadlines.stop()
  }

  #abandon(run: Run, reason: MillraceError): void {
    if (run.ended) return
    this.#runtime.events.emit('abandoned', { ...run.event(), why: reason.message })
    this.#end(run, concludeError(run, this.#runtime, reason))
  }

  #setDeadline(run: Run, deadline: number): void {
    run.deadline = deadline
    this.#deadlines.watch(deadline)
  }
}

function timedOut({ policy: { timeout } }: Run): MillraceError {
  const message = `the job ran longer than its timeout of ${timeout} ms`
  return new MillraceError('JOB_TIMEOUT', message, { limit: timeout })
}
