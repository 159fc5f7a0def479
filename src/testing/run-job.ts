import { overridesText } from '../client/new-job.js'
import { guardOf } from '../client/placement.js'
import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import type { AnyJob, JobDefinition } from '../core/definition.js'
import { Emitter } from '../core/events.js'
import type { ClaimedJob, Failure, JobState, LogLevel, NewJob } from '../core/job.js'
import { type Outcome, waiting } from '../core/lifecycle.js'
import { invalid } from '../core/options.js'
import type { StepRecord } from '../core/step.js'
import type { Store } from '../core/store.js'
import { newId } from '../system/ids.js'
import { execute } from '../worker/execute.js'
import { executeBatch } from '../worker/execute-batch.js'
import { Run, type RunListener } from '../worker/run.js'
import { noTransactions, type StepStore } from '../worker/step-keeper.js'
import { type TrialChild, TrialChildren } from './trial-children.js'
import { VirtualClock } from './virtual-clock.js'

export interface RunJobOptions {
  /** @default 1 */
  readonly attempt?: number
  readonly tags?: readonly string[]
  readonly metadata?: unknown
  /** Aborts the handler's signal. */
  readonly signal?: AbortSignal
  readonly jobId?: string
  /** Of the input, as an older deploy would have enqueued it. @default the definition's */
  readonly version?: number
  /**
   * What steps of earlier runs gave, by name: `{ charge: 'ch_1', sleep: undefined, 'wait:approval': 'yes' }`. A wait
   * that gave undefined has timed out.
   */
  readonly steps?: Readonly<Record<string, unknown>>
  /** What it waited for, in the order in which that was added. */
  readonly children?: readonly TrialChild[]
}

/** What one attempt did. */
export interface RunJobResult<R> {
  /** What becomes of the job: completed, retrying, dead, cancelled, scheduled (snoozed) or blocked (waiting). */
  readonly state: JobState
  readonly result: R | undefined
  readonly failure: Failure | undefined
  /** Milliseconds until the retry or the end of the snooze. */
  readonly delay: number
  readonly progress: readonly unknown[]
  readonly logs: readonly { readonly level: LogLevel; readonly text: string }[]
  readonly enqueued: readonly { readonly id: string; readonly name: string; readonly input: unknown }[]
  /** What its steps gave, by name; those of `options.steps` are among them. */
  readonly steps: Readonly<Record<string, unknown>>
  /** What a blocked job waits for. */
  readonly waits: { readonly until: Date | undefined; readonly keys: readonly string[] } | undefined
}

/**
 * Runs a handler once, as a worker would, without store, queue or time: input checked, errors classified. A
 * handler that is a module runs in this process; that of a batch job gets a batch of one, see `runBatch`.
 */
export async function runJob<I, O, R>(
  job: JobDefinition<I, O, R>,
  input: NoInfer<I>,
  options: RunJobOptions = {},
): Promise<RunJobResult<R>> {
  const trial = new Trial<R>(job, input, options)
  const outcome = await new Promise<Outcome>((resolve) => {
    trial.suspended = resolve
    execute(trial.run, trial.runtime, (_run, decided) => resolve(decided))
  })
  return trial.end(outcome)
}

/** Runs the handler of a batch job once with all these inputs, whatever the size of its batches. */
export async function runBatch<I, O, R>(
  job: JobDefinition<I, O, R>,
  inputs: readonly NoInfer<I>[],
  options: Omit<RunJobOptions, 'jobId'> = {},
): Promise<RunJobResult<R>[]> {
  if (job.batch === undefined)
    throw invalid('job', job.name, 'a job made by defineBatchJob; others run with runJob')
  const trials = inputs.map((input) => new Trial<R>(job, input, options))
  const outcomes = new Map<Run, Outcome>()
  const runs = trials.map((trial) => trial.run)
  await executeBatch(runs, trials[0]?.runtime ?? makeRuntime(new TrialChildren('', [])), (run, outcome) =>
    outcomes.set(run, outcome),
  )
  return trials.map((trial) => trial.end(outcomes.get(trial.run) as Outcome))
}

/** One attempt under observation. */
class Trial<R> {
  readonly run: Run
  readonly runtime: Runtime
  readonly #added: NewJob[] = []
  readonly #progress: unknown[] = []
  readonly #logs: { level: LogLevel; text: string }[] = []
  readonly #forget: () => void
  readonly #steps: Map<string, StepRecord>
  /** Called with the outcome of a run that waits. */
  suspended: (outcome: Outcome) => void = () => {}

  constructor(job: AnyJob, input: unknown, options: RunJobOptions) {
    const claimed = claim(job, input, options)
    const children = new TrialChildren(claimed.id, options.children ?? [])
    this.runtime = makeRuntime(children)
    const { events, clock } = this.runtime
    events.on('progress', (event) => this.#progress.push(event.progress))
    events.on('log', ({ level, text }) => this.#logs.push({ level, text }))
    this.#steps = memosOf({ ...options.steps, ...children.fans })
    const listener: RunListener = {
      id: 'test',
      steps: stepsInMemory(this.#steps, (jobs) => {
        children.add(jobs)
        this.#added.push(...jobs)
      }),
      reported() {},
      began() {},
      suspended: (_run, wait) => this.suspended(waiting(wait)),
      storeTime: () => clock.now(),
    }
    const { signal } = options
    const run = new Run(claimed, job, this.runtime, listener, clock.monotonic())
    const stop = () => run.stop(signal?.reason)
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop, { once: true })
    this.run = run
    this.#forget = () => signal?.removeEventListener('abort', stop)
  }

  end(outcome: Outcome): RunJobResult<R> {
    this.#forget()
    return {
      state: outcome.to,
      result: outcome.result === undefined ? undefined : (jsonCodec.decode(outcome.result) as R),
      failure: outcome.failure,
      delay: outcome.delay,
      progress: this.#progress,
      logs: this.#logs,
      enqueued: [...this.#added, ...(this.run.inserts ?? [])].map(({ id, name, input }) => ({
        id,
        name,
        input: jsonCodec.decode(input),
      })),
      steps: Object.fromEntries(
        [...this.#steps.values()]
          .filter(({ open }) => !open)
          .map(({ name, value }) => [name, value === undefined ? undefined : jsonCodec.decode(value)]),
      ),
      waits: outcome.wait && {
        until: outcome.wait.until === undefined ? undefined : new Date(outcome.wait.until),
        keys: outcome.wait.signals.map(({ key }) => key),
      },
    }
  }
}

function memosOf(values: Readonly<Record<string, unknown>>): Map<string, StepRecord> {
  return new Map(
    Object.entries(values).map(([name, given]) => {
      const value =
        given === undefined ? undefined : jsonCodec.encode(given, `step '${name}'`, bounds.stepBytes)
      const signal = given === undefined ? undefined : 1
      return [name, { name, value, open: false, until: undefined, signal, at: 0 }]
    }),
  )
}

function stepsInMemory(kept: Map<string, StepRecord>, insert: (jobs: readonly NewJob[]) => void): StepStore {
  return {
    insert: async (_run, jobs, steps) => {
      insert(jobs)
      for (const step of steps) kept.set(step.name, step)
    },
    read: async () => [...kept.values()],
    write: async (_run, steps) => {
      for (const step of steps) kept.set(step.name, step)
    },
    replays: async () => 0,
    close: async () => true,
    begin: () => Promise.reject(noTransactions('memory')),
    unwritten: () => [],
  }
}

function makeRuntime(children: TrialChildren): Runtime {
  // Nothing else of a store can be asked for here.
  const store = { links: children.read } as unknown as Store
  return {
    store,
    codec: jsonCodec,
    clock: new VirtualClock(),
    random: () => 0.5,
    events: new Emitter(() => {}),
    limits: { payload: bounds.payloadBytes, result: bounds.resultBytes },
    ready: () => Promise.resolve(),
    isReady: () => true,
  }
}

function claim(job: AnyJob, input: unknown, options: RunJobOptions): ClaimedJob {
  const { queue, lane, maxAttempts, maxCrashes } = job.policy
  const now = Date.now()
  const guard = guardOf(job, input)
  return {
    id: options.jobId ?? newId(now),
    token: 'test',
    name: job.name,
    queue,
    lane,
    input: jsonCodec.encode(input, 'input', bounds.payloadBytes),
    attempt: options.attempt ?? 1,
    crashes: 0,
    maxAttempts,
    maxCrashes,
    createdAt: now,
    readyAt: now,
    startedAt: now,
    retryDelay: 0,
    overrides: overridesOf(job, options),
    tags: options.tags,
    metadata:
      options.metadata === undefined
        ? undefined
        : jsonCodec.encode(options.metadata, 'metadata', bounds.metadataBytes),
    group: undefined,
    key: undefined,
    suspect: false,
    family: undefined,
    guard: guard && { ...guard, status: 'begun', result: undefined, retryIn: undefined },
    stepped: false,
  }
}

function overridesOf(
  { evolution }: AnyJob,
  { version = evolution?.version }: RunJobOptions,
): string | undefined {
  return version === undefined ? undefined : overridesText({ version })
}
