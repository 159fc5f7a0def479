import { encodeInput, newJob } from '../client/new-job.js'
import { placement } from '../client/placement.js'
import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { Children, type ReadChildren } from '../core/children.js'
import { jsonCodec } from '../core/codec.js'
import {
  type AnyJob,
  checkDefinition,
  type EnqueueFromHandler,
  type JobContext,
  parseInput,
} from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import type { RunEvent } from '../core/events.js'
import { type ScheduleSlot, slotOfJob } from '../core/firing.js'
import type { ClaimedJob, LogLevel, LogLine, NewJob } from '../core/job.js'
import { laneNames } from '../core/lanes.js'
import { type CompiledPolicy, jobId, readOverrides } from '../core/options.js'
import type { StepRecord, Wait } from '../core/step.js'
import type { Step } from '../core/step-function.js'
import type { Report } from '../core/store.js'
import { clean } from '../core/text.js'
import { readChildren } from './links.js'
import { versionOf, whyUnwind } from './screen.js'
import { childJobs } from './step-children.js'
import type { StepHost } from './step-host.js'
import type { StepStore } from './step-keeper.js'
import { Steps } from './steps.js'
import { notTransactional, RunTransaction, stepsRun } from './transaction.js'

/** Who hears of what a running job reports. */
export interface RunListener {
  /** The worker's name. */
  readonly id: string
  /** Where its steps are kept. */
  readonly steps: StepStore
  /** Progress or a log line is waiting to be written. */
  reported(run: Run): void
  /** Its transaction is open. */
  began(run: Run): void
  /** It goes no further: the job waits. */
  suspended(run: Run, wait: Wait): void
  /** The store's clock, as far as is known here. */
  storeTime(): number
}

/**
 * One attempt of one job, from its claim to its settlement: the handler's context and the worker's record.
 * Most handlers use little of it, so the signal, the functions and the lists are made on first use.
 */
export class Run implements JobContext {
  readonly job: ClaimedJob
  readonly definition: AnyJob
  readonly startedAt: number
  /** Monotonic time of the next thing to happen to it: the timeout, then the abandonment. */
  deadline = Number.POSITIVE_INFINITY
  /** Milliseconds that its transaction may be open, if that ends sooner than its timeout. */
  mostOpen: number | undefined
  /** Why it was told to stop. */
  stopped: MillraceError | undefined
  /** Why it was cancelled while it ran. */
  cancelled: string | undefined
  /** Its outcome is decided; nothing it does counts any more. */
  ended = false
  /** Shared with the other runs of its batch: how many of them still go on in their one slot. */
  batch: { left: number } | undefined
  /** Ends what runs it, or its wait for that, when it runs in a sandbox. */
  kill: (() => void) | undefined
  inserts: NewJob[] | undefined
  /** What the worker adds with an outcome other than completion, such as what undoes the children of a flow. */
  consequences: NewJob[] | undefined
  /** Of a transactional definition. */
  readonly transaction: RunTransaction | undefined
  readonly #runtime: Runtime
  readonly #listener: RunListener
  #progressText: string | undefined
  #logLines: LogLine[] | undefined
  /** How many lines came before those. */
  #logged = 0
  #controller: AbortController | undefined
  #policy: CompiledPolicy | undefined
  #steps: Steps | undefined
  /** Steps of a run in a sandbox, or of the worker's own, that are to be written with its outcome. */
  #lastSteps: readonly StepRecord[] | undefined

  constructor(
    job: ClaimedJob,
    definition: AnyJob,
    runtime: Runtime,
    listener: RunListener,
    startedAt: number,
  ) {
    this.job = job
    this.definition = definition
    this.#runtime = runtime
    this.#listener = listener
    this.startedAt = startedAt
    if (definition.transactional) this.transaction = new RunTransaction(job.id, () => runtime.store)
  }

  /** For the handler of a job that unwinds. */
  get cancelReason(): string | undefined {
    return whyUnwind(this.job)
  }

  get jobId(): string {
    return this.job.id
  }

  get name(): string {
    return this.job.name
  }

  get queue(): string {
    return this.job.queue
  }

  get attempt(): number {
    return this.job.attempt
  }

  get maxAttempts(): number {
    return this.job.maxAttempts
  }

  get idempotencyKey(): string {
    return this.job.guard?.key ?? this.job.id
  }

  get createdAt(): Date {
    return new Date(this.job.createdAt)
  }

  get tags(): readonly string[] {
    return this.job.tags ?? []
  }

  get metadata(): unknown {
    return this.job.metadata === undefined ? undefined : jsonCodec.decode(this.job.metadata)
  }

  get schedule(): ScheduleSlot | undefined {
    return slotOfJob(this.job.id)
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.stopped !== undefined && !this.#controller.signal.aborted) this.#controller.abort(this.stopped)
    return this.#controller.signal
  }

  /** Tells the handler to stop. The first reason stands. */
  stop(reason: MillraceError): void {
    if (this.stopped !== undefined) return
    this.stopped = reason
    this.#controller?.abort(reason)
    this.rollback(reason)
  }

  /** What its handler wrote with `tx` is not to be. */
  rollback(reason?: MillraceError): void {
    const { events } = this.#runtime
    this.transaction
      ?.rollback(reason)
      .catch((error: unknown) => events.emit('error', { error, during: 'rollback' }))
  }

  /** The form of its input. */
  get version(): number {
    return versionOf(this.job)
  }

  /** The definition's policy, with what this one job carries. */
  get policy(): CompiledPolicy {
    if (this.job.overrides === undefined) return this.definition.policy
    this.#policy ??= { ...this.definition.policy, ...readOverrides(this.job.overrides) }
    return this.#policy
  }

  get progress(): (value: unknown) => void {
    return (value) => {
      this.#progressText = this.#runtime.codec.encode(value, 'progress', bounds.progressBytes)
      const { events } = this.#runtime
      if (events.wants('progress')) events.emit('progress', { ...this.event(), progress: value })
      if (!this.ended) this.#listener.reported(this)
    }
  }

  get log(): (text: string, level?: LogLevel) => void {
    return (text, level = 'info') => {
      const line = { at: this.#runtime.clock.now(), level, text: clean(String(text), bounds.logText) }
      this.#logLines ??= []
      this.#logLines.push(line)
      if (this.#logLines.length > bounds.logLines) this.#forgetLines(1)
      const { events } = this.#runtime
      if (events.wants('log')) events.emit('log', { ...this.event(), level, text: line.text })
      if (!this.ended) this.#listener.reported(this)
    }
  }

  get enqueue(): EnqueueFromHandler {
    return async (job, input, options) => {
      if (this.ended) throw this.#tooLate()
      checkDefinition(job)
      await parseInput(job, input)
      if (this.ended) throw this.#tooLate()
      options?.signal?.throwIfAborted()
      const place = placement(job, input, options)
      const added = newJob(this.#runtime, job, encodeInput(this.#runtime, input), place, options)
      this.inserts ??= []
      if (this.inserts.length >= bounds.batch) {
        throw new MillraceError(
          'INVALID_OPTION',
          `a handler can add ${bounds.batch} jobs with its outcome; add the others with mill.enqueueMany`,
          { limit: bounds.batch },
        )
      }
      this.inserts.push(added)
      return jobId(added.id)
    }
  }

  get children(): JobContext['children'] {
    return this.#childReader.all
  }

  get results(): JobContext['results'] {
    return this.#childReader.results
  }

  get resultOf(): JobContext['resultOf'] {
    return this.#childReader.resultOf
  }

  get #childReader(): Children {
    return new Children(this.readChildren)
  }

  /** A page of its children that have ended. */
  readonly readChildren: ReadChildren = (which, cursor) =>
    readChildren(this.#runtime, this.job.id, which, cursor)

  get tx(): <Tx = unknown>() => Promise<Tx> {
    return async <Tx>() => {
      if (this.transaction === undefined) throw notTransactional(this.name)
      if (this.#steps?.isBusy) throw stepsRun(this.name)
      const isFirst = !this.transaction.isUsed
      const tx = await this.transaction.tx()
      if (isFirst) this.#listener.began(this)
      return tx as Tx
    }
  }

  get step(): Step {
    if (this.definition.batch !== undefined) throw noStepsInBatches(this.name)
    this.#steps ??= new Steps(this.#stepHost())
    return this.#steps.api
  }

  #stepHost(): StepHost {
    const run = this
    const { steps } = this.#listener
    return {
      jobId: this.job.id,
      codec: this.#runtime.codec,
      get ended() {
        return run.ended
      },
      get stopped() {
        return run.stopped
      },
      get hasBegun() {
        return run.transaction?.isUsed === true
      },
      now: () => this.#listener.storeTime(),
      read: () => steps.read(this),
      write: (records) => steps.write(this, records),
      begin: () => steps.begin(this),
      addChildren: async (batch) => {
        await steps.insert(this, await childJobs(this, this.#runtime, batch), batch.steps)
      },
      readChildren: this.readChildren,
      replays: () => steps.replays(this),
      close: (close) => steps.close(this, close),
      suspend: (wait) => this.#listener.suspended(this, wait),
    }
  }

  /** The handler has settled; undefined when none of its steps is running. */
  endSteps(): Promise<void> | undefined {
    return this.#steps?.end()
  }

  /** Steps of a handler that runs elsewhere. */
  get stepStore(): StepStore {
    return this.#listener.steps
  }

  /** Writes steps of a handler that ran elsewhere with the outcome. */
  keep(steps: readonly StepRecord[]): void {
    this.#lastSteps = steps
  }

  /** A handler that runs elsewhere waits. */
  suspend(wait: Wait): void {
    this.#listener.suspended(this, wait)
  }

  /** Writes a step of the worker's own with the outcome. */
  remember(name: string): void {
    const at = this.storeTime()
    this.#lastSteps = [{ name, value: undefined, open: false, until: undefined, signal: undefined, at }]
  }

  /** The store's clock, as far as is known here. */
  storeTime(): number {
    return this.#listener.storeTime()
  }

  #tooLate(): MillraceError {
    return new MillraceError('LEASE_LOST', `job ${this.job.id} has ended; it can add no more jobs`)
  }

  /** What was reported and is not known to be written. */
  report(): Report | undefined {
    if (this.#progressText === undefined && this.#logLines === undefined) return undefined
    const logs = this.#logLines && [...this.#logLines]
    return { progress: this.#progressText, logs, logsFrom: this.#logged }
  }

  /** The same as it goes with its outcome: also sleeps and waits that began, which nothing else must carry past it. */
  lastReport(): Report | undefined {
    this.#lastSteps ??= this.#steps?.take()
    const unwritten = this.stepStore.unwritten(this)
    const steps = this.#lastSteps === undefined ? unwritten : [...unwritten, ...this.#lastSteps]
    const report = this.report()
    return steps.length === 0 ? report : { progress: undefined, logs: undefined, ...report, steps }
  }

  /** The store has this report. */
  written({ progress, logs = [], logsFrom = 0 }: Report): void {
    if (this.#progressText === progress) this.#progressText = undefined
    this.#forgetLines(logsFrom + logs.length - this.#logged)
  }

  #forgetLines(count: number): void {
    if (this.#logLines === undefined || count <= 0) return
    this.#logLines.splice(0, count)
    this.#logged += count
    if (this.#logLines.length === 0) this.#logLines = undefined
  }

  /** What every event about it tells. */
  event(): RunEvent {
    const { id, name, queue, lane, attempt } = this.job
    return { id, name, queue, priority: laneNames[lane] ?? 'default', attempt, worker: this.#listener.id }
  }
}

function noStepsInBatches(job: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `job '${job}' runs in batches, whose handler has no steps; define it with defineJob, or enqueue a job with steps`,
    { field: 'step' },
  )
}
