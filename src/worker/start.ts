import type { Runtime } from '../client/runtime.js'
import type { AnyJob } from '../core/definition.js'
import type { ClaimedJob } from '../core/job.js'
import { type Outcome, putOff, type Retention, runsAlone } from '../core/lifecycle.js'
import type { Batch } from './batch.js'
import { concludeError, execute } from './execute.js'
import { executeBatch } from './execute-batch.js'
import { mayBeHindered, obstacle } from './family.js'
import type { Fetcher } from './fetch.js'
import { Run, type RunListener } from './run.js'
import type { Kind } from './sandbox/child.js'
import { type SandboxPool, sandboxFor } from './sandbox/pool.js'
import { isOfNewerDeploy, needsScreening, outcomeOfGuard } from './screen.js'
import type { Exchange } from './settle.js'
import type { Slots } from './slots.js'
import type { TimeLimits } from './time-limits.js'
import { isBatch, type UnstartedJobs } from './unstarted.js'

/** Jobs of names that nobody here knows are put off this long, for a worker that does. */
const unknownMs = 10_000

export interface StarterParts {
  readonly runtime: Runtime
  readonly jobs: ReadonlyMap<string, AnyJob>
  readonly runs: Set<Run>
  readonly slots: Slots
  readonly unstarted: UnstartedJobs
  readonly fetcher: Fetcher
  readonly exchange: Exchange
  readonly timeLimits: TimeLimits
  readonly sandboxes: SandboxPool | undefined
  readonly listener: RunListener
  retain(name: string): Retention
  /** Whether the worker takes on anything more. */
  mayStart(): boolean
  finish(run: Run, outcome: Outcome): void
}

/** Starts what was claimed, as far as it is to run and there are slots. */
export class Starter {
  readonly #parts: StarterParts
  #starting = false
  /** A job that has the worker to itself as soon as what was given back for it is stored. */
  #next: ClaimedJob | undefined

  constructor(parts: StarterParts) {
    this.#parts = parts
  }

  /** Claimed, and neither unstarted nor in a slot. */
  get aside(): readonly ClaimedJob[] {
    return this.#next === undefined ? [] : [this.#next]
  }

  /** Its lease is lost. */
  drop(isIt: (job: ClaimedJob) => boolean): void {
    if (this.#next !== undefined && isIt(this.#next)) this.#next = undefined
  }

  /** Leaves out those that are not to run, here or now, and settles them: they need no slot. */
  screen(claimed: readonly ClaimedJob[]): readonly ClaimedJob[] {
    if (!claimed.some(needsScreening)) return claimed
    const { jobs, exchange, retain } = this.#parts
    return claimed.filter((job) => {
      const definition = jobs.get(job.name)
      const isNewer = isOfNewerDeploy(job, definition)
      const outcome = outcomeOfGuard(job, definition, retain(job.name))
      if (isNewer) this.#putOff(job)
      else if (outcome !== undefined) exchange.settle(job, outcome)
      return !isNewer && outcome === undefined
    })
  }

  /**
   * Fills the slots with single jobs and due batches, in the order of their claims. A job that needs the
   * worker waits until nothing else is at risk, then has it to itself.
   */
  startMore(): void {
    // A job that ends at once frees its slot in here: the loop goes on with it, however many there are.
    if (!this.#parts.mayStart() || this.#starting) return
    this.#starting = true
    try {
      this.#fillSlots()
    } finally {
      this.#starting = false
    }
  }

  #fillSlots(): void {
    const { slots, unstarted, exchange, runs } = this.#parts
    while (slots.hasFree && !slots.alone) {
      const next = unstarted.next(this.#hasSlot)
      if (next === undefined) break
      const alone = !isBatch(next) && this.needsTheWorker(next)
      if (alone && (runs.size > 0 || !exchange.idle)) return
      unstarted.takeNext(next)
      if (isBatch(next)) this.#startBatch(next)
      else if (alone) return this.#startAlone(next)
      else if (this.#hasSlot(next.lane)) this.#start(next)
      // A batch has taken the slot that it was claimed for.
      else exchange.giveBack([next])
    }
    if (unstarted.waiting === 0 || slots.hasFree) exchange.wake()
  }

  readonly #hasSlot = (lane: number): boolean => {
    const { fetcher, slots } = this.#parts
    return fetcher.hasSlot(slots.activeByLane, lane)
  }

  /** On its last life, and nothing else keeps it apart. */
  needsTheWorker(job: ClaimedJob): boolean {
    if (!runsAlone(job)) return false
    const definition = this.#parts.sandboxes && this.#parts.jobs.get(job.name)
    return definition === undefined || sandboxFor(definition, job) === undefined
  }

  /** What is given back must be stored before the danger begins. */
  #startAlone(job: ClaimedJob): void {
    const { slots, unstarted, exchange, mayStart } = this.#parts
    exchange.giveBack(unstarted.removeAll())
    slots.alone = true
    this.#next = job
    void exchange.flushed().then(() => {
      const isLost = this.#next !== job
      this.#next = undefined
      if (isLost) {
        slots.alone = false
        return
      }
      if (mayStart()) return this.#start(job)
      slots.alone = false
      exchange.giveBack([job])
    })
  }

  #start(job: ClaimedJob): void {
    const { jobs, slots, sandboxes } = this.#parts
    const definition = jobs.get(job.name)
    if (definition === undefined) return this.#putOff(job)
    slots.take(job.lane)
    const run = this.#begin(job, definition)
    const kind = sandboxes && sandboxFor(definition, job)
    if (mayBeHindered(job)) return void this.#startIfItMay(run, kind)
    this.#execute(run, kind)
  }

  /** Nobody here knows how to run it. */
  #putOff(job: ClaimedJob): void {
    const { runtime, slots, exchange } = this.#parts
    slots.alone = false
    runtime.events.emit('unknown', { id: job.id, name: job.name, queue: job.queue })
    exchange.settle(job, putOff(unknownMs))
  }

  /** Once it is clear that what became of its children lets it run. */
  async #startIfItMay(run: Run, kind: Kind | undefined): Promise<void> {
    const { runtime, jobs, finish } = this.#parts
    try {
      const outcome = await obstacle(run, runtime, jobs)
      if (outcome !== undefined) return finish(run, outcome)
    } catch (error) {
      return finish(run, concludeError(run, runtime, error))
    }
    if (!run.ended) this.#execute(run, kind)
  }

  #execute(run: Run, kind: Kind | undefined): void {
    const { runtime, sandboxes, finish } = this.#parts
    if (kind === undefined) execute(run, runtime, finish)
    else execute(run, runtime, finish, (run, input) => sandboxes?.run(run, input, kind))
  }

  #startBatch(batch: Batch): void {
    const { runtime, slots, finish } = this.#parts
    slots.take(batch.lane)
    const slot = { left: batch.jobs.length }
    const runs = batch.jobs.map((job) => this.#begin(job, batch.definition, slot))
    void executeBatch(runs, runtime, finish)
  }

  #begin(job: ClaimedJob, definition: AnyJob, slot?: Run['batch']): Run {
    const { runtime, runs, listener, timeLimits } = this.#parts
    const { clock, events } = runtime
    const now = clock.monotonic()
    const run = new Run(job, definition, runtime, listener, now)
    run.batch = slot
    runs.add(run)
    timeLimits.startClock(run, now)
    if (events.wants('started'))
      events.emit('started', { ...run.event(), waited: job.startedAt - job.readyAt })
    return run
  }
}
