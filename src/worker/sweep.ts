import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { MillraceError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { laneNames } from '../core/lanes.js'
import { crashed, type Retention } from '../core/lifecycle.js'
import type { DueSchedule } from '../core/schedule.js'
import type { OrphanedJob, Settlement, SweepReport, SweepRequest } from '../core/store.js'
import type { LeaseKeeper } from './lease.js'
import { fireSchedules } from './schedules.js'

export interface SweepOptions {
  readonly every: number
  readonly keep: SweepRequest['keep']
  /** How long a job of this name is kept when it ends here. */
  readonly retain: (name: string) => Retention
}

const jumpMs = 1_000

/**
 * The worker's share of the housekeeping: due jobs become ready, schedules fire, finished jobs go when their time
 * is over, and the jobs of lost workers come back. Every worker does it; each step is guarded, so that doing it
 * twice does no harm and nobody has to be in charge.
 */
export class Sweeper {
  readonly #runtime: Runtime
  readonly #options: SweepOptions
  readonly #lease: LeaseKeeper
  #cancelTimer: (() => void) | undefined
  /** Monotonic time of the next sweep. */
  #nextAt = Number.POSITIVE_INFINITY
  #sweeping = false
  /** The soonest due time that was heard of while sweeping. */
  #hint = Number.POSITIVE_INFINITY
  /** By how much the wall clock was ahead of the monotonic one at the last sweep. */
  #ahead: number
  /** Nothing is known to be due when the next one comes. */
  #isRoutine = false
  #stopped = false

  constructor(runtime: Runtime, options: SweepOptions, lease: LeaseKeeper) {
    this.#runtime = runtime
    this.#options = options
    this.#lease = lease
    this.#ahead = runtime.clock.now() - runtime.clock.monotonic()
  }

  start(): void {
    this.#sweepIn(0)
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer?.()
  }

  /** A job or a schedule will be due in `delay` ms: sweep then, if not sooner. */
  due(delay: number): void {
    if (this.#sweeping) this.#hint = Math.min(this.#hint, delay)
    else if (this.#runtime.clock.monotonic() + delay < this.#nextAt) {
      this.#isRoutine = false
      this.#sweepIn(delay)
    }
  }

  #sweepIn(delay: number): void {
    if (this.#stopped) return
    this.#cancelTimer?.()
    this.#nextAt = this.#runtime.clock.monotonic() + delay
    this.#cancelTimer = this.#runtime.clock.after(delay, () => void this.#sweep())
  }

  async #sweep(): Promise<void> {
    this.#sweeping = true
    this.#hint = Number.POSITIVE_INFINITY
    // Spread over a fifth of the interval, so that many processes do not sweep in step.
    const usual = this.#options.every * (0.9 + this.#runtime.random() / 5)
    let pause = usual
    const { keep } = this.#options
    const every = this.#isRoutine ? this.#options.every : undefined
    try {
      await this.#lease.beatIfLate()
      const report = await this.#runtime.store.sweep({ limit: bounds.batch, keep, every })
      for (const error of report.failed ?? []) this.#tellFailure(error)
      // Whose lease only the clock took away gets a moment to renew it.
      if (!this.#clockJumped()) await this.#rescue(report.orphans)
      // Schedules that do not go on are looked at again, but not at once.
      if (await this.#fire(report.schedules)) pause = nextPause(report, pause)
    } catch (error) {
      this.#tellFailure(error)
    }
    this.#sweeping = false
    this.#isRoutine = pause === usual && this.#hint >= usual
    this.#sweepIn(Math.min(pause, this.#hint))
  }

  #tellFailure(error: unknown): void {
    if (!this.#stopped) this.#runtime.events.emit('error', { error, during: 'sweep' })
  }

  /** Whether they have gone on. */
  async #fire(schedules: readonly DueSchedule[]): Promise<boolean> {
    return schedules.length === 0 || (await fireSchedules(this.#runtime, schedules)) > 0
  }

  /** The wall clock, which leases are judged by, went on by more than time has passed: it was set, or all slept. */
  #clockJumped(): boolean {
    const { clock } = this.#runtime
    const ahead = clock.now() - clock.monotonic()
    const jumped = ahead - this.#ahead > jumpMs
    this.#ahead = ahead
    return jumped
  }

  /** Decides what becomes of each orphan; the store refuses those whose worker came back. */
  async #rescue(orphans: readonly OrphanedJob[]): Promise<void> {
    for (const [worker, jobs] of byWorker(orphans)) {
      const settlements = jobs.map(
        (job): Settlement => ({
          id: job.id,
          token: job.token,
          outcome: crashed(job, describeFailure(job.name, workerLost(job)), this.#options.retain(job.name)),
          inserts: undefined,
        }),
      )
      const { settled } = await this.#runtime.store.exchange({
        worker,
        settlements,
        claim: undefined,
        rescue: true,
      })
      jobs.forEach((job, i) => {
        if (settled[i] !== 'lost') this.#tell(job, settlements[i] as Settlement)
      })
    }
  }

  #tell(job: OrphanedJob, { outcome }: Settlement): void {
    const { events } = this.#runtime
    const about = { id: job.id, name: job.name, queue: job.queue, worker: job.worker }
    events.emit('stalled', about)
    if (outcome.to === 'cancelled') events.emit('cancelled', { ...about, reason: outcome.reason })
    if (outcome.to === 'dead' && outcome.failure !== undefined) {
      events.emit('dead', {
        ...about,
        priority: laneNames[job.lane] ?? 'default',
        attempt: job.attempt,
        failure: outcome.failure,
      })
    }
  }
}

function nextPause(report: SweepReport, usual: number): number {
  if (report.more) return 0
  return Math.min(usual, report.nextDue ?? usual, report.nextSlot ?? usual)
}

function byWorker(orphans: readonly OrphanedJob[]): Map<string, OrphanedJob[]> {
  const groups = new Map<string, OrphanedJob[]>()
  for (const job of orphans) {
    const group = groups.get(job.worker)
    if (group === undefined) groups.set(job.worker, [job])
    else group.push(job)
  }
  return groups
}

function workerLost(job: OrphanedJob): MillraceError {
  const count = job.crashes + 1
  const error = new MillraceError(
    'JOB_CRASHED',
    `the worker was lost while it ran this job: it was killed, blocked past its lease, or this job took it down (${count} of ${job.maxCrashes})`,
  )
  // Where the sweep found it says nothing about the cause.
  error.stack = ''
  return error
}
