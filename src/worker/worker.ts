import { builtInJobs } from '../client/built-in.js'
import type { Runtime } from '../client/runtime.js'
import type { AnyJob } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import type { ClaimedJob } from '../core/job.js'
import { laneCount } from '../core/lanes.js'
import {
  cancelled,
  type Outcome,
  putOff,
  type Retention,
  released,
  runsAlone,
  unstarted,
  waiting,
} from '../core/lifecycle.js'
import { compileRetain } from '../core/options.js'
import type { ClaimRequest, SettleResult, Signal } from '../core/store.js'
import { newToken } from '../system/ids.js'
import { onShutdown } from '../system/signals.js'
import { announce, announceStored } from './announce.js'
import { type Batch, Batches, goesFirst } from './batch.js'
import { Deadlines } from './deadlines.js'
import { concludeError, execute, stoppedByCancel } from './execute.js'
import { batchKey, executeBatch } from './execute-batch.js'
import { mayBeHindered, obstacle } from './family.js'
import { Fetcher } from './fetch.js'
import { LeaseKeeper, leaseLost } from './lease.js'
import { Lookout } from './lookout.js'
import { type CompiledWorker, compileWorker, type WorkerOptions } from './options.js'
import { Run, type RunListener } from './run.js'
import type { Kind } from './sandbox/child.js'
import { SandboxPool, sandboxFor } from './sandbox/pool.js'
import { isOfNewerDeploy, needsScreening, outcomeOfGuard } from './screen.js'
import { Exchange, settlementOf } from './settle.js'
import { StepKeeper } from './step-keeper.js'
import { Sweeper } from './sweep.js'
import { noTransactions, openTooLong, type RunTransaction } from './transaction.js'
import { Waiting } from './waiting.js'

/** Jobs of names that nobody here knows are put off this long, for a worker that does. */
const unknownMs = 10_000

type Phase = 'new' | 'running' | 'stopping' | 'stopped'

/**
 * Takes jobs and runs them in a bounded number of slots. The parts: `Lookout` knows when to ask for jobs, `Fetcher`
 * for how many, `Exchange` talks to the store, `execute` runs one, `Batches` collects those that run together,
 * `SandboxPool` keeps some apart, `LeaseKeeper` keeps the right to them, `Deadlines` ends what takes too long,
 * `Sweeper` does the housekeeping. This class moves jobs between them.
 */
export class Worker {
  readonly id: string
  /** Resolves when it has stopped: by `stop`, by a signal, or because its Millrace was closed. */
  readonly stopped: Promise<void>
  readonly #runtime: Runtime
  readonly #jobs: ReadonlyMap<string, AnyJob>
  readonly #options: CompiledWorker
  readonly #fetcher: Fetcher
  readonly #lookout: Lookout
  readonly #exchange: Exchange
  readonly #lease: LeaseKeeper
  readonly #listener: RunListener
  readonly #sweeper: Sweeper
  readonly #deadlines: Deadlines
  readonly #sandboxes: SandboxPool | undefined
  readonly #runs = new Set<Run>()
  readonly #batches: Batches
  /** Slots in use, and how many of them by each lane. A running batch uses one; one that is open uses none. */
  #busy = 0
  readonly #activeByLane = new Array<number>(laneCount).fill(0)
  readonly #waiting = new Waiting()
  #starting = false
  /** A job is running that must run alone. */
  #alone = false
  #worked = false
  /** By how much the store's clock is ahead of the monotonic one here, by the last claim. */
  #storeAhead: number
  #phase: Phase = 'new'
  #unsubscribe: (() => void) | undefined
  #forgetSignals: (() => void) | undefined
  #stopping: Promise<void> | undefined
  #whenEmpty: (() => void) | undefined
  #tellStopped: () => void = () => {}

  constructor(runtime: Runtime, jobs: ReadonlyMap<string, AnyJob>, options: WorkerOptions = {}) {
    this.stopped = new Promise((resolve) => {
      this.#tellStopped = resolve
    })
    this.#runtime = runtime
    this.#options = compileWorker(options, jobs)
    this.#jobs = new Map([...builtInJobs, ...jobs])
    this.id = `${this.#options.name}-${newToken().slice(0, 12)}`
    this.#fetcher = new Fetcher(this.#options)
    this.#lookout = new Lookout(runtime.clock, this.#options.poll, () => this.#exchange.wake())
    this.#exchange = new Exchange(runtime, this.id, {
      wanted: (settling) => this.#wanted(settling),
      claimed: (jobs, opens) => this.#claimed(jobs, opens),
      exchanged: () => this.#exchanged(),
      settled: (job, run, outcome, result) => this.#settled(job, run, outcome, result),
    })
    this.#lease = new LeaseKeeper(runtime, this.id, this.#options.lease, {
      runs: () => this.#runs,
      unstarted: () => [...this.#waiting.all(), ...this.#batches.jobs()],
      lost: (id, token) => this.#lost(id, token),
      cancel: (id, reason) => this.#cancel(id, reason),
    })
    this.#storeAhead = runtime.clock.now() - runtime.clock.monotonic()
    this.#listener = {
      id: this.id,
      steps: new StepKeeper(runtime, this.id, this.#options.lease, {
        lost: (id, token) => this.#lost(id, token),
        cancel: (id, reason) => this.#cancel(id, reason),
      }),
      reported: () => this.#lease.beatSoon(),
      began: (run) => this.#began(run),
      suspended: (run, wait) => this.#finished(run, waiting(wait)),
      storeTime: () => Math.round(runtime.clock.monotonic() + this.#storeAhead),
    }
    this.#sweeper = new Sweeper(
      runtime,
      {
        every: this.#options.poll,
        keep: this.#options.keep,
        retain: (name) => this.#retention(name),
      },
      this.#lease,
    )
    this.#deadlines = new Deadlines(runtime.clock, this.#runs, (run) => this.#overdue(run))
    this.#batches = new Batches(runtime.clock, jobs, {
      keyOf: (definition, job) => (mayBeHindered(job) ? undefined : batchKey(definition, job, runtime)),
      due: () => this.#startMore(),
    })
    if (this.#options.sandbox !== undefined) {
      this.#sandboxes = new SandboxPool(runtime, jobs, this.#options.sandbox, {
        waits: (run) => this.#stopClock(run),
        begins: (run) => this.#startClock(run, runtime.clock.monotonic()),
        deaf: (run) => this.#overdue(run),
      })
    }
  }

  /** How many jobs are in slots now. */
  get active(): number {
    return this.#runs.size
  }

  /** Whether it has nothing to do, as far as it knows. */
  get idle(): boolean {
    return this.#onlyCollects && this.#batches.size === 0
  }

  get #onlyCollects(): boolean {
    return (
      this.#lookout.seemsEmpty && this.#runs.size === 0 && this.#waiting.size === 0 && this.#exchange.idle
    )
  }

  /** When a limit that holds up jobs of its queues opens, as far as it knows; epoch milliseconds. */
  get opensAt(): number | undefined {
    return this.#lookout.opensAt
  }

  /** When the next batch starts, full or not, if that is all that it waits for; epoch milliseconds. */
  get batchAt(): number | undefined {
    const { clock } = this.#runtime
    const { dueAt } = this.#batches
    if (dueAt === undefined || !this.#onlyCollects) return undefined
    return clock.now() + Math.max(0, dueAt - clock.monotonic())
  }

  async start(): Promise<void> {
    if (this.#phase !== 'new')
      throw new MillraceError('CLOSED', 'a worker starts once; make a new one with mill.worker()')
    this.#phase = 'running'
    try {
      await this.#runtime.ready()
      this.#refuseWithoutTransactions()
      await this.#lease.start()
    } catch (error) {
      if (this.#phase === 'running') this.#phase = 'new'
      throw error
    }
    // Stopped while it started: nothing may be left behind that keeps the process.
    if (this.#phase !== 'running') return this.#lease.stop()
    if (this.#options.handleSignals) {
      this.#forgetSignals = onShutdown((force) => this.stop(force ? { grace: 0 } : {}))
    }
    this.#unsubscribe = this.#runtime.store.subscribe((signal) => this.#heard(signal))
    this.#sweeper.start()
    this.#sandboxes?.open()
    this.#lookout.start()
    this.#exchange.wake()
  }

  #refuseWithoutTransactions(): void {
    const { engine, transactions } = this.#runtime.store.capabilities
    const job = [...this.#jobs.values()].find(({ transactional }) => transactional)
    if (job !== undefined && !transactions) throw noTransactions(job.name, engine)
  }

  /** Takes no more jobs, waits for the running ones, and gives back at once what is left after `grace`. */
  stop(options: { readonly grace?: Duration } = {}): Promise<void> {
    const grace = options.grace === undefined ? this.#options.grace : milliseconds(options.grace, 'grace')
    if (this.#phase === 'new') {
      this.#phase = 'stopped'
      this.#tellStopped()
    }
    if (this.#phase === 'stopped') return Promise.resolve()
    this.#stopping ??= this.#drain(grace)
    if (options.grace !== undefined && grace === 0) this.#giveBackRunning()
    return this.#stopping
  }

  async #drain(grace: number): Promise<void> {
    this.#phase = 'stopping'
    this.#lookout.stop()
    this.#giveBackUnstarted()
    if (this.#runs.size > 0) {
      const cancel = this.#runtime.clock.after(grace, () => this.#giveBackRunning())
      await new Promise<void>((resolve) => {
        this.#whenEmpty = resolve
      })
      cancel()
    }
    const sandboxesClosed = this.#sandboxes?.close()
    // A store that does not answer must not keep the process: the lease will give the rest back.
    const cancelLast = this.#runtime.clock.after(Math.max(grace, 5_000), () => this.#exchange.stop())
    // What an answer brings may have to be given back in turn.
    do await this.#exchange.flushed()
    while (!this.#exchange.idle && !this.#exchange.stopped)
    cancelLast()
    this.#exchange.stop()
    this.#lease.stop()
    this.#sweeper.stop()
    this.#deadlines.stop()
    this.#batches.stop()
    this.#unsubscribe?.()
    this.#forgetSignals?.()
    await sandboxesClosed
    this.#phase = 'stopped'
    this.#tellStopped()
  }

  #giveBackUnstarted(): void {
    for (const job of this.#takeUnstarted(() => true)) this.#exchange.settle(job, unstarted())
  }

  #giveBackRunning(): void {
    const reason = new MillraceError('SHUTDOWN', 'the worker shuts down; the job was given back')
    for (const run of [...this.#runs]) {
      if (run.ended) continue // it is being committed
      run.stop(reason)
      this.#end(run, run.cancelled === undefined ? released() : stoppedByCancel(run, run.cancelled))
    }
  }

  #heard(signal: Signal): void {
    switch (signal.type) {
      case 'ready':
        if (!this.#options.queues.some((queue) => signal.queues.has(queue))) return
        return this.#lookout.look()
      case 'due':
        return this.#sweeper.due(signal.delay)
      case 'cancel':
        if (this.#runs.size + this.#batches.size > 0) void this.#lease.beat()
        return
      case 'changed':
        this.#lookout.look()
        if (this.#runs.size > 0) this.#lease.lookSoon()
        return
      case 'settled':
      case 'claimed':
      case 'reported':
      case 'breaker':
      case 'quarantine':
        return
    }
  }

  #wanted(settling: boolean): ClaimRequest | undefined {
    if (this.#phase !== 'running' || this.#alone) return undefined
    // A claim that rides along costs nothing; one of its own waits for a sign of work.
    if (this.#lookout.seemsEmpty && !settling) return undefined
    this.#lookout.asks()
    const { size: collected, complete, lacking } = this.#batches
    const unstarted = { waiting: this.#waiting.size, collected, complete, lacking }
    return this.#fetcher.plan(this.#activeByLane, unstarted, this.#runtime.clock.monotonic())
  }

  #claimed(claimed: readonly ClaimedJob[], opens: number | undefined): void {
    const [first] = claimed
    if (first !== undefined) {
      this.#worked = true
      this.#storeAhead = first.startedAt - this.#runtime.clock.monotonic()
    }
    const full = this.#fetcher.learn(
      claimed,
      claimed.some((job) => this.#needsTheWorker(job)),
      this.#batches.width(claimed),
    )
    this.#waiting.add(this.#batches.collect(this.#screen(claimed), full))
    if (this.#phase === 'running') this.#lookout.learns(full, opens)
    else this.#giveBackUnstarted()
  }

  /** Leaves out those that are not to run, here or now, and settles them: they need no slot. */
  #screen(claimed: readonly ClaimedJob[]): readonly ClaimedJob[] {
    if (!claimed.some(needsScreening)) return claimed
    return claimed.filter((job) => {
      const definition = this.#jobs.get(job.name)
      const isNewer = isOfNewerDeploy(job, definition)
      const outcome = outcomeOfGuard(job, definition, this.#retention(job.name))
      if (isNewer) this.#putOff(job)
      else if (outcome !== undefined) this.#exchange.settle(job, outcome)
      return !isNewer && outcome === undefined
    })
  }

  #exchanged(): void {
    if (this.#phase === 'running') this.#startMore()
    if (this.#worked && this.idle) this.#drained()
  }

  #drained(): void {
    this.#worked = false
    const { events } = this.#runtime
    if (events.wants('drained')) events.emit('drained', { worker: this.id, queues: this.#options.queues })
  }

  /**
   * Fills the slots with single jobs and due batches, in the order of their claims. A job that needs the
   * worker waits until nothing else is at risk, then has it to itself.
   */
  #startMore(): void {
    // A job that ends at once frees its slot in here: the loop goes on with it, however many there are.
    if (this.#phase !== 'running' || this.#starting) return
    this.#starting = true
    try {
      this.#fillSlots()
    } finally {
      this.#starting = false
    }
  }

  #fillSlots(): void {
    while (this.#busy < this.#options.concurrency && !this.#alone) {
      const job = this.#waiting.first
      const batch = this.#batches.next(this.#hasSlot)
      if (batch !== undefined && (job === undefined || goesFirst(batch, job))) {
        this.#startBatch(batch)
        continue
      }
      if (job === undefined) break
      if (this.#needsTheWorker(job)) {
        if (this.#runs.size > 0 || !this.#exchange.idle) return
        this.#waiting.takeFirst()
        return this.#startAlone(job)
      }
      this.#waiting.takeFirst()
      // A batch has taken the slot that it was claimed for.
      if (this.#hasSlot(job.lane)) this.#start(job)
      else this.#exchange.settle(job, unstarted())
    }
    if (this.#waiting.size === 0 || this.#busy < this.#options.concurrency) this.#exchange.wake()
  }

  readonly #hasSlot = (lane: number): boolean => this.#fetcher.hasSlot(this.#activeByLane, lane)

  /** On its last life, and nothing else keeps it apart. */
  #needsTheWorker(job: ClaimedJob): boolean {
    if (!runsAlone(job)) return false
    const definition = this.#sandboxes && this.#jobs.get(job.name)
    return definition === undefined || sandboxFor(definition, job) === undefined
  }

  /** What is given back must be stored before the danger begins. */
  #startAlone(job: ClaimedJob): void {
    this.#giveBackUnstarted()
    this.#alone = true
    void this.#exchange.flushed().then(() => {
      if (this.#phase === 'running') return this.#start(job)
      this.#alone = false
      this.#exchange.settle(job, unstarted())
    })
  }

  #start(job: ClaimedJob): void {
    const definition = this.#jobs.get(job.name)
    if (definition === undefined) return this.#putOff(job)
    this.#countSlot(job.lane, 1)
    const run = this.#begin(job, definition)
    const kind = this.#sandboxes && sandboxFor(definition, job)
    if (mayBeHindered(job)) return void this.#startIfItMay(run, kind)
    this.#execute(run, kind)
  }

  /** Once it is clear that what became of its children lets it run. */
  async #startIfItMay(run: Run, kind: Kind | undefined): Promise<void> {
    try {
      const outcome = await obstacle(run, this.#runtime, this.#jobs)
      if (outcome !== undefined) return this.#finished(run, outcome)
    } catch (error) {
      return this.#finished(run, concludeError(run, this.#runtime, error))
    }
    if (!run.ended) this.#execute(run, kind)
  }

  #execute(run: Run, kind: Kind | undefined): void {
    if (kind === undefined) execute(run, this.#runtime, this.#finished)
    else execute(run, this.#runtime, this.#finished, (run, input) => this.#sandboxes?.run(run, input, kind))
  }

  #startBatch(batch: Batch): void {
    this.#batches.take(batch)
    this.#countSlot(batch.lane, 1)
    const slot = { left: batch.jobs.length }
    const runs = batch.jobs.map((job) => this.#begin(job, batch.definition, slot))
    void executeBatch(runs, this.#runtime, this.#finished)
  }

  #begin(job: ClaimedJob, definition: AnyJob, slot?: Run['batch']): Run {
    const { clock, events } = this.#runtime
    const now = clock.monotonic()
    const run = new Run(job, definition, this.#runtime, this.#listener, now)
    run.batch = slot
    this.#runs.add(run)
    this.#startClock(run, now)
    if (events.wants('started'))
      events.emit('started', { ...run.event(), waited: job.startedAt - job.readyAt })
    return run
  }

  #countSlot(lane: number, change: 1 | -1): void {
    this.#busy += change
    this.#activeByLane[lane] = (this.#activeByLane[lane] as number) + change
  }

  #startClock(run: Run, now: number): void {
    const { timeout } = run.policy
    if (timeout === 0 || run.stopped !== undefined) return
    run.deadline = now + timeout
    this.#deadlines.watch(run.deadline)
  }

  /** While it stands in line for a sandbox. One that was told to stop has its own deadline. */
  #stopClock(run: Run): void {
    if (run.stopped === undefined) run.deadline = Number.POSITIVE_INFINITY
  }

  readonly #finished = (run: Run, outcome: Outcome): void => {
    if (run.ended) return
    if (outcome.to === 'completed' && run.transaction?.isUsed)
      void this.#commit(run, run.transaction, outcome)
    else this.#end(run, outcome)
  }

  /** Settles it in its handler's transaction. One that cannot commit has failed. */
  async #commit(run: Run, transaction: RunTransaction, outcome: Outcome): Promise<void> {
    run.ended = true
    run.deadline = Number.POSITIVE_INFINITY
    const settlement = settlementOf(run.job, outcome, run)
    try {
      const result = await transaction.settle(this.id, settlement)
      announce(run, outcome, result, this.#runtime)
    } catch (error) {
      if (settlement.report !== undefined) run.restoreReport(settlement.report)
      return this.#end(run, concludeError(run, this.#runtime, error))
    }
    this.#free(run)
    this.#exchanged()
  }

  /** The exit of a run: its slot is free, its outcome is on its way, and nothing it does counts any more. */
  #end(run: Run, outcome: Outcome): void {
    run.ended = true
    run.rollback()
    run.kill?.()
    this.#exchange.settle(run.job, outcome, run)
    if (outcome.hold > 0) this.#giveBackHeld(run.job)
    this.#free(run)
  }

  #free(run: Run): void {
    this.#runs.delete(run)
    this.#alone = false
    // The slot of a batch is free when its last job has ended.
    if (run.batch !== undefined && --run.batch.left > 0) return
    this.#countSlot(run.job.lane, -1)
    if (this.#phase === 'running') this.#startMore()
    else if (this.#runs.size === 0) this.#whenEmpty?.()
  }

  /** The other side wants no more of these for a while: those that have not started wait with the rest. */
  #giveBackHeld({ name, key }: ClaimedJob): void {
    for (const job of this.#takeUnstarted((other) => other.name === name && other.key === key))
      this.#exchange.settle(job, unstarted())
  }

  #putOff(job: ClaimedJob): void {
    this.#alone = false
    this.#runtime.events.emit('unknown', { id: job.id, name: job.name, queue: job.queue })
    this.#exchange.settle(job, putOff(unknownMs))
  }

  /** The first time: tell the handler to stop. The second: it did not, or cannot, so go on without it. */
  #overdue(run: Run): void {
    if (run.stopped === undefined) {
      this.#stopRun(run, run.mostOpen === undefined ? timedOut(run) : openTooLong(run.mostOpen))
    } else {
      this.#abandon(run, run.stopped)
    }
  }

  #stopRun(run: Run, reason: MillraceError): void {
    if (run.ended || run.stopped !== undefined) return
    run.stop(reason)
    run.deadline = this.#runtime.clock.monotonic() + this.#options.abandonAfter
    this.#deadlines.watch(run.deadline)
  }

  #abandon(run: Run, reason: MillraceError): void {
    if (run.ended) return
    this.#runtime.events.emit('abandoned', { ...run.event(), why: reason.message })
    this.#end(run, concludeError(run, this.#runtime, reason))
  }

  #cancel(id: string, reason: string): void {
    for (const run of this.#runs) {
      if (run.job.id !== id || run.cancelled !== undefined || run.job.cancelReason !== undefined) continue
      run.cancelled = reason
      this.#stopRun(run, new MillraceError('JOB_CANCELLED', `job ${id} was cancelled: ${reason}`))
    }
    for (const job of this.#takeUnstarted((job) => job.id === id && job.cancelReason === undefined)) {
      const unwinds = this.#jobs.get(job.name)?.unwinds === true
      this.#exchange.settle(job, unwinds ? unstarted() : cancelled(reason, this.#retention(job.name)))
    }
  }

  #lost(id: string, token: string): void {
    const isIt = (job: ClaimedJob) => job.id === id && job.token === token
    for (const run of this.#runs) if (isIt(run.job)) this.#stopRun(run, leaseLost(id))
    this.#takeUnstarted(isIt)
  }

  #takeUnstarted(which: (job: ClaimedJob) => boolean): ClaimedJob[] {
    return [...this.#waiting.take(which), ...this.#batches.remove(which)]
  }

  /** While it is open nothing else is written, the renewal of the lease neither: it must end before that does. */
  #began(run: Run): void {
    const most = this.#options.lease / 2
    const until = this.#runtime.clock.monotonic() + most
    if (run.ended || run.stopped !== undefined || run.deadline <= until) return
    run.deadline = until
    run.mostOpen = most
    this.#deadlines.watch(until)
  }

  #settled(job: ClaimedJob, run: Run | undefined, outcome: Outcome, result: SettleResult): void {
    if (run !== undefined) announce(run, outcome, result, this.#runtime)
    else if (outcome.to === 'completed' && result === 'applied') announceStored(job, this.id, this.#runtime)
    else if (outcome.to === 'cancelled' && result === 'applied') {
      const { id, name, queue } = job
      this.#runtime.events.emit('cancelled', { id, name, queue, reason: outcome.reason })
    }
  }

  #retention(name: string): Retention {
    return this.#jobs.get(name)?.policy.retain ?? compileRetain(undefined)
  }
}

function timedOut({ policy: { timeout } }: Run): MillraceError {
  const message = `the job ran longer than its timeout of ${timeout} ms`
  return new MillraceError('JOB_TIMEOUT', message, { limit: timeout })
}
