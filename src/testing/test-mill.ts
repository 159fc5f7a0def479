import { AssertionError } from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import type { JobSnapshot } from '../client/inspect.js'
import type { Stats } from '../client/stats.js'
import { bounds } from '../core/bounds.js'
import type { JobDefinition } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { jobStates } from '../core/job.js'
import type { Store } from '../core/store.js'
import { Millrace, type MillraceOptions } from '../millrace.js'
import { MemoryStore } from '../stores/memory/index.js'
import type { WorkerOptions } from '../worker/options.js'
import type { Worker } from '../worker/worker.js'
import { inTime } from './in-time.js'
import { VirtualClock } from './virtual-clock.js'

export interface TestMillOptions extends Omit<MillraceOptions, 'store' | 'clock'> {
  /** Where virtual time starts. @default '2030-01-01T00:00:00Z' */
  readonly start?: number | string | Date
  /** `enqueue`, `enqueueMany`, `flow` and `chain` run what they add, and what follows from it, before they return. @default false */
  readonly inline?: boolean
  /** Makes the store over the virtual clock. @default the memory engine */
  readonly store?: (clock: VirtualClock) => Store
  readonly worker?: Omit<WorkerOptions, 'handleSignals'>
}

export interface DrainOptions {
  /**
   * Also runs what is due later, moving virtual time from one due time to the next. Schedules fire on the way, at
   * their times, but time does not move for them alone: most never end. Use `advance` to get to a slot.
   * @default false
   */
  readonly later?: boolean
  /** Real time after which a handler that never ends fails the test. @default '10s' */
  readonly timeout?: Duration
}

/** Jobs of a kind whose input contains `match`, with the input typed. */
export type Enqueued<I> = JobSnapshot & { readonly input: I }

/** Real milliseconds that handlers may take while virtual time is moved. */
const realTimeout = 10_000
const mostRounds = 100_000
/** Times that schedules may fire while a drain waits for what is due later. */
const mostFirings = 1_000
/** Looks in a row, a millisecond apart, that find a worker with nothing to do. */
const surelyIdle = 3
const everything = { completed: Number.MAX_SAFE_INTEGER, dead: Number.MAX_SAFE_INTEGER }

/**
 * A whole Millrace in the test's own process and time: no server, no waiting. Workers, timeouts, delays and
 * retries follow `clock`.
 */
export class TestMill extends Millrace {
  readonly clock: VirtualClock
  readonly #store: Store
  readonly #inline: boolean
  readonly #workerOptions: WorkerOptions
  #worker: Worker | undefined
  #draining = 0

  constructor(options: TestMillOptions = {}) {
    const { start, inline, store: makeStore, worker, ...rest } = options
    const clock = new VirtualClock(start)
    const store = makeStore === undefined ? new MemoryStore({ clock }) : inTime(makeStore(clock), clock)
    super({ random: () => 0.5, ...rest, store, clock })
    this.clock = clock
    this.#store = store
    this.#inline = inline ?? false
    this.#workerOptions = { ...worker, handleSignals: false }
  }

  protected override added<T>(adding: Promise<T>): Promise<T> {
    return this.#inline ? adding.then((value) => this.#drained(value)) : adding
  }

  /**
   * Runs what is ready, and what that leads to, until nothing is. Failed jobs wait for their backoff. Time moves
   * only as far as batches wait for more jobs.
   */
  async drain(options: DrainOptions = {}): Promise<void> {
    const timeout = milliseconds(options.timeout ?? '10s', 'timeout')
    const until = { jobs: this.clock.now(), slots: this.clock.now(), batches: Number.POSITIVE_INFINITY }
    await this.#runUntil(options.later ? { ...until, jobs: Number.POSITIVE_INFINITY } : until, timeout)
  }

  /**
   * Moves time forward; what falls due on the way runs at its time. A batch that would wait for longer is given
   * back, and collected anew by the next call.
   */
  async advance(duration: Duration): Promise<void> {
    const until = this.clock.now() + milliseconds(duration, 'duration')
    const all = { jobs: until, slots: until, batches: until }
    await this.#runUntil(all, realTimeout)
    await this.clock.advance(until - this.clock.now())
    await this.#runUntil(all, realTimeout)
  }

  /** All jobs of this kind that the store knows, whatever their state, whose input contains `match`. */
  async enqueued<I, O, R>(job: JobDefinition<I, O, R>, match?: Partial<I>): Promise<Enqueued<I>[]> {
    const found: Enqueued<I>[] = []
    for (const state of jobStates) {
      let cursor: string | undefined
      do {
        const page = await this.jobs({ state, name: job.name }, { limit: bounds.page, cursor })
        for (const snapshot of page.jobs)
          if (contains(snapshot.input, match)) found.push(snapshot as Enqueued<I>)
        cursor = page.cursor
      } while (cursor !== undefined)
    }
    return found
  }

  /** Fails unless such a job was enqueued: exactly `times` of them when given, else at least one. */
  async assertEnqueued<I, O, R>(
    job: JobDefinition<I, O, R>,
    match?: Partial<I>,
    times?: number,
  ): Promise<Enqueued<I>[]> {
    const found = await this.enqueued(job, match)
    if (times === undefined ? found.length > 0 : found.length === times) return found
    const all = await this.enqueued(job)
    throw new AssertionError({
      message: `expected ${times ?? 'at least 1'} enqueued '${job.name}' matching ${JSON.stringify(match ?? {})}, found ${found.length} of ${all.length}`,
      actual: all.map((one) => one.input),
      expected: match,
    })
  }

  /** Handlers that are modules run in this process, in virtual time and within a debugger's reach. */
  override worker(options: WorkerOptions = {}): Worker {
    return super.worker({ sandbox: false, ...options })
  }

  override async close(): Promise<void> {
    await this.#stop()
    await super.close({ grace: 0 })
  }

  async #drained<T>(value: T): Promise<T> {
    // A job that enqueues inline while a drain is on is run by that drain.
    if (this.#draining === 0) await this.drain()
    return value
  }

  /** From one due time to the next, with nothing in between: years pass as fast as there is work in them. */
  async #runUntil(until: Horizon, timeout: number): Promise<void> {
    this.#draining++
    const firings = new Set<number>()
    try {
      for (let round = 0; round < mostRounds; round++) {
        await this.#start()
        await this.#untilIdle(until.batches, timeout)
        const opensAt = this.#worker?.opensAt ?? Number.POSITIVE_INFINITY
        await this.#stop()
        const { jobAt, slotAt } = await this.#nextDue()
        const nextJob = Math.min(opensAt, jobAt)
        const waits = nextJob <= until.jobs && nextJob < Number.POSITIVE_INFINITY
        if (!waits && slotAt > until.slots) return
        const next = waits ? Math.min(nextJob, slotAt) : slotAt
        if (next > until.slots && firings.add(slotAt).size > mostFirings) throw endless()
        await this.clock.advance(Math.max(0, next - this.clock.now()))
      }
      throw new AssertionError({
        message: `drain: jobs still come back after ${mostRounds} rounds; does one snooze for ever?`,
      })
    } finally {
      this.#draining--
      await this.#stop()
    }
  }

  async #start(): Promise<void> {
    if (this.#worker !== undefined) return
    this.#worker = this.worker(this.#workerOptions)
    await this.#worker.start()
  }

  async #stop(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    await worker?.stop({ grace: 0 })
  }

  /** Nothing runs, and what is ready is held up. Handlers may do real I/O, so this waits in real time too. */
  async #untilIdle(batchesUntil: number, timeout: number): Promise<void> {
    const deadline = performance.now() + timeout
    let idle = 0
    for (;;) {
      await this.clock.advance(0)
      // Of one moment: a job that was pending in one look may run in the next.
      const { states, queues } = await this.stats()
      if (states.running === 0 && !canRun(queues)) return
      const batchAt = this.#worker?.batchAt
      if (batchAt !== undefined) {
        if (batchAt > batchesUntil) return
        await this.clock.advance(batchAt - this.clock.now())
      }
      // Ready jobs that the worker was refused wait for a limit, a group or a breaker.
      idle = states.running === 0 && this.#worker?.idle === true ? idle + 1 : 0
      if (idle === surelyIdle) return
      if (performance.now() > deadline) {
        throw new AssertionError({
          message: `drain: ${states.running} jobs still run and ${states.pending} wait after ${timeout} ms of real time`,
        })
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }

  /** When the next job and the next schedule are due; now, if the worker left something that is due already. */
  async #nextDue(): Promise<{ jobAt: number; slotAt: number }> {
    const report = await this.#store.sweep({ limit: bounds.batch, keep: everything })
    const now = this.clock.now()
    const isDue = report.promoted + report.schedules.length > 0
    return {
      jobAt: isDue ? now : now + (report.nextDue ?? Number.POSITIVE_INFINITY),
      slotAt: now + (report.nextSlot ?? Number.POSITIVE_INFINITY),
    }
  }
}

/** Whether any queue that is not paused has a job. */
function canRun(queues: Stats['queues']): boolean {
  return Object.values(queues).some(({ paused, states }) => !paused && states.pending > 0)
}

/** Up to when time moves for what. */
interface Horizon {
  readonly jobs: number
  readonly slots: number
  readonly batches: number
}

function endless(): AssertionError {
  return new AssertionError({
    message: `drain: schedules fired ${mostFirings} times while it waited for jobs that are due later; use advance()`,
  })
}

function contains(input: unknown, match: unknown): boolean {
  if (match === undefined) return true
  if (typeof match !== 'object' || match === null || typeof input !== 'object' || input === null) {
    return isDeepStrictEqual(input, match)
  }
  return Object.entries(match).every(([key, value]) =>
    contains((input as Record<string, unknown>)[key], value),
  )
}
