import { builtInJobs } from '../client/built-in.js'
import type { Runtime } from '../client/runtime.js'
import type { AnyJob } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import type { ClaimedJob } from '../core/job.js'
import { cancelled, type Retention, released, unstarted, waiting } from '../core/lifecycle.js'
import { compileRetain } from '../core/options.js'
import type { ClaimRequest, Signal } from '../core/store.js'
import { newToken } from '../system/ids.js'
import { onShutdown } from '../system/signals.js'
import { announce, announceUnstarted } from './announce.js'
import { Batches } from './batch.js'
import { stoppedByCancel } from './execute.js'
import { batchKey } from './execute-batch.js'
import { mayBeHindered } from './family.js'
import { Fetcher, sizeOf } from './fetch.js'
import { Finisher } from './finish.js'
import { LeaseKeeper, leaseLost } from './lease.js'
import { Lookout } from './lookout.js'
import { type CompiledWorker, compileWorker, type WorkerOptions } from './options.js'
import type { Run, RunListener } from './run.js'
import { SandboxPool } from './sandbox/pool.js'
import { Exchange } from './settle.js'
import { Slots } from './slots.js'
import { Starter } from './start.js'
import { StepKeeper } from './step-keeper.js'
import { Sweeper } from './sweep.js'
import { TimeLimits } from './time-limits.js'
import { refuseWithoutTransactions } from './transaction.js'
import { UnstartedJobs } from './unstarted.js'

type Phase = 'new' | 'running' | 'stopping' | 'stopped'

/**
 * Takes jobs and runs them in a bounded number of slots. The parts: `Lookout` knows when to ask for jobs, `Fetcher`
 * for how many, `Exchange` talks to the store. `UnstartedJobs` has what was claimed and waits, `Batches` collects of
 * these what runs together, `Starter` fills the slots with them, `SandboxPool` keeps some apart, `TimeLimits` ends
 * what takes too long, `Finisher` sends outcomes on their way. `LeaseKeeper` keeps the right to all of them, and
 * `Sweeper` does the housekeeping. This class starts and stops these and tells each what the others need of it.
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
  readonly #sandboxes: SandboxPool | undefined
  readonly #runs = new Set<Run>()
  readonly #slots: Slots
  readonly #batches: Batches
  readonly #unstarted: UnstartedJobs
  readonly #starter: Starter
  readonly #timeLimits: TimeLimits
  readonly #finisher: Finisher
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
    this.#slots = new Slots(this.#options.concurrency)
    this.#fetcher = new Fetcher(this.#options)
    this.#lookout = new Lookout(runtime.clock, this.#options.poll, () => this.#exchange.wake())
    this.#exchange = new Exchange(runtime, this.id, {
      wanted: (settling, coming) => this.#wanted(settling, coming),
      claimed: (claim, jobs, opens) => this.#claimed(claim, jobs, opens),
      exchanged: () => this.#exchanged(),
      settled: (job, run, outcome, result) => {
        if (run !== undefined) announce(run, outcome, result, runtime)
        else announceUnstarted(job, this.id, outcome, result, runtime)
      },
    })
    const holder = {
      lost: (id: string, token: string) => this.#lost(id, token),
      cancel: (id: string, reason: string) => this.#cancel(id, reason),
    }
    this.#lease = new LeaseKeeper(runtime, this.id, this.#options.lease, {
      ...holder,
      runs: () => this.#runs,
      unstarted: () => [...this.#unstarted.all(), ...this.#starter.aside],
      leaving: () => this.#exchange.leaving(),
      claiming: () => this.#exchange.claiming,
    })
    this.#storeAhead = runtime.clock.now() - runtime.clock.monotonic()
    this.#listener = {
      id: this.id,
      steps: new StepKeeper(runtime, this.id, this.#options.lease, holder),
      reported: () => this.#lease.beatSoon(),
      began: (run) => this.#timeLimits.transactionBegan(run),
      suspended: (run, wait) => this.#finisher.finish(run, waiting(wait)),
      storeTime: () => Math.round(runtime.clock.monotonic() + this.#storeAhead),
    }
    const { poll: every, keep } = this.#options
    const retain = (name: string) => this.#retention(name)
    this.#sweeper = new Sweeper(runtime, { every, keep, retain }, this.#lease)
    this.#batches = new Batches(runtime.clock, jobs, {
      keyOf: (definition, job) => (mayBeHindered(job) ? undefined : batchKey(definition, job, runtime)),
      due: () => this.#starter.startMore(),
    })
    this.#unstarted = new UnstartedJobs(this.#batches)
    if (this.#options.sandbox !== undefined) {
      this.#sandboxes = new SandboxPool(runtime, jobs, this.#options.sandbox, {
        waits: (run) => this.#timeLimits.stopClock(run),
        begins: (run) => this.#timeLimits.startClock(run, runtime.clock.monotonic()),
        deaf: (run) => this.#timeLimits.overdue(run),
      })
    }
    const parts = {
      runtime,
      runs: this.#runs,
      slots: this.#slots,
      unstarted: this.#unstarted,
      exchange: this.#exchange,
    }
    this.#finisher = new Finisher({
      ...parts,
      worker: this.id,
      freed: () => this.#freed(),
      committed: () => this.#exchanged(),
    })
    this.#timeLimits = new TimeLimits(runtime, this.#options, this.#runs, this.#finisher.end)
    this.#starter = new Starter({
      ...parts,
      jobs: this.#jobs,
      fetcher: this.#fetcher,
      timeLimits: this.#timeLimits,
      sandboxes: this.#sandboxes,
      listener: this.#listener,
      retain,
      mayStart: () => this.#phase === 'running',
      finish: this.#finisher.finish,
    })
  }

  /** How many jobs are in slots now. */
  get active(): number {
    return this.#runs.size
  }

  /** Whether it has nothing to do, as far as it knows. */
  get idle(): boolean {
    return this.#onlyCollects && this.#unstarted.collected === 0
  }

  get #onlyCollects(): boolean {
    return (
      this.#lookout.seemsEmpty &&
      this.#runs.size === 0 &&
      this.#unstarted.waiting === 0 &&
      this.#exchange.idle
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
      refuseWithoutTransactions(this.#jobs.values(), this.#runtime.store.capabilities)
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
    this.#exchange.giveBack(this.#unstarted.removeAll())
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
    this.#timeLimits.stop()
    this.#batches.stop()
    this.#unsubscribe?.()
    this.#forgetSignals?.()
    await sandboxesClosed
    this.#phase = 'stopped'
    this.#tellStopped()
  }

  #giveBackRunning(): void {
    const reason = new MillraceError('SHUTDOWN', 'the worker shuts down; the job was given back')
    for (const run of [...this.#runs]) {
      if (run.ended) continue // it is being committed
      run.stop(reason)
      this.#finisher.end(run, run.cancelled === undefined ? released() : stoppedByCancel(run, run.cancelled))
    }
  }

  #heard(signal: Signal): void {
    switch (signal.type) {
      case 'arriving':
        if (this.#serves(signal.queues) && this.#onlyCollects)
          this.#exchange.now(() => this.#lookout.expect())
        return
      case 'ready':
        if (this.#serves(signal.queues)) this.#lookout.look()
        return
      case 'due':
        return this.#sweeper.due(signal.delay)
      case 'cancel':
        if (this.#runs.size + this.#unstarted.collected > 0) void this.#lease.beat()
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

  #serves(queues: ReadonlySet<string>): boolean {
    return this.#options.queues.some((queue) => queues.has(queue))
  }

  #wanted(settling: boolean, coming: number): ClaimRequest | undefined {
    if (this.#phase !== 'running' || this.#slots.alone) return undefined
    // A claim that rides along costs nothing; one of its own waits for a sign of work.
    if (this.#lookout.seemsEmpty && !settling) return undefined
    this.#lookout.asks()
    const { activeByLane } = this.#slots
    return this.#fetcher.plan(activeByLane, this.#unstarted, this.#runtime.clock.monotonic(), coming)
  }

  #claimed(claim: ClaimRequest, claimed: readonly ClaimedJob[], opens: number | undefined): void {
    const [first] = claimed
    if (first !== undefined) {
      this.#worked = true
      this.#storeAhead = first.startedAt - this.#runtime.clock.monotonic()
    }
    const full = this.#fetcher.learn(
      sizeOf(claim),
      claimed,
      claimed.some((job) => this.#starter.needsTheWorker(job)),
      this.#batches.width(claimed),
    )
    this.#unstarted.add(this.#starter.screen(claimed), full)
    if (this.#phase === 'running') this.#lookout.learns(full, opens)
    else this.#exchange.giveBack(this.#unstarted.removeAll())
  }

  #exchanged(): void {
    this.#starter.startMore()
    if (this.#worked && this.idle) this.#drained()
  }

  #drained(): void {
    this.#worked = false
    const { events } = this.#runtime
    if (events.wants('drained')) events.emit('drained', { worker: this.id, queues: this.#options.queues })
  }

  #freed(): void {
    if (this.#phase === 'running') this.#starter.startMore()
    else if (this.#runs.size === 0) this.#whenEmpty?.()
  }

  #cancel(id: string, reason: string): void {
    for (const run of this.#runs) {
      if (run.job.id !== id || run.cancelled !== undefined || run.job.cancelReason !== undefined) continue
      run.cancelled = reason
      this.#timeLimits.stopRun(run, new MillraceError('JOB_CANCELLED', `job ${id} was cancelled: ${reason}`))
    }
    for (const job of this.#unstarted.remove((job) => job.id === id && job.cancelReason === undefined)) {
      const unwinds = this.#jobs.get(job.name)?.unwinds === true
      this.#exchange.settle(job, unwinds ? unstarted() : cancelled(reason, this.#retention(job.name)))
    }
  }

  #lost(id: string, token: string): void {
    const isIt = (job: ClaimedJob) => job.id === id && job.token === token
    for (const run of this.#runs) if (isIt(run.job)) this.#timeLimits.stopRun(run, leaseLost(id))
    this.#unstarted.remove(isIt)
    this.#starter.drop(isIt)
  }

  #retention(name: string): Retention {
    return this.#jobs.get(name)?.policy.retain ?? compileRetain(undefined)
  }
}
