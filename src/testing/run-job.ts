import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { jsonCodec } from '../core/codec.js'
import type { AnyJob, JobDefinition } from '../core/definition.js'
import { Emitter } from '../core/events.js'
import type { ClaimedJob, Failure, JobState, LogLevel } from '../core/job.js'
import type { Outcome } from '../core/lifecycle.js'
import type { Store } from '../core/store.js'
import { newId } from '../system/ids.js'
import { execute } from '../worker/execute.js'
import { Run } from '../worker/run.js'
import { VirtualClock } from './virtual-clock.js'

export interface RunJobOptions {
  /** @default 1 */
  readonly attempt?: number
  readonly tags?: readonly string[]
  readonly metadata?: unknown
  /** Aborts the handler's signal. */
  readonly signal?: AbortSignal
  readonly jobId?: string
}

/** What one attempt did. */
export interface RunJobResult<R> {
  /** What becomes of the job: completed, retrying, dead, cancelled or scheduled (snoozed). */
  readonly state: JobState
  readonly result: R | undefined
  readonly failure: Failure | undefined
  /** Milliseconds until the retry or the end of the snooze. */
  readonly delay: number
  readonly progress: readonly unknown[]
  readonly logs: readonly { readonly level: LogLevel; readonly text: string }[]
  readonly enqueued: readonly { readonly id: string; readonly name: string; readonly input: unknown }[]
}

/**
 * Runs a handler once, as a worker would, without store, queue or time: input checked, errors classified. A
 * handler that is a module runs in this process.
 */
export async function runJob<I, O, R>(
  job: JobDefinition<I, O, R>,
  input: NoInfer<I>,
  options: RunJobOptions = {},
): Promise<RunJobResult<R>> {
  const clock = new VirtualClock()
  const progress: unknown[] = []
  const logs: { level: LogLevel; text: string }[] = []
  const events = new Emitter(() => {})
  events.on('progress', (event) => progress.push(event.progress))
  events.on('log', ({ level, text }) => logs.push({ level, text }))
  const runtime: Runtime = {
    codec: jsonCodec,
    clock,
    random: () => 0.5,
    events,
    limits: { payload: bounds.payloadBytes, result: bounds.resultBytes },
    ready: () => Promise.resolve(),
    isReady: () => true,
    get store(): Store {
      throw new Error('runJob has no store')
    },
  }
  const run = new Run(
    claim(job, input, options),
    job,
    runtime,
    { id: 'test', reported() {} },
    clock.monotonic(),
  )
  const stop = () => run.stop(options.signal?.reason)
  if (options.signal?.aborted) stop()
  options.signal?.addEventListener('abort', stop, { once: true })
  const outcome = await new Promise<Outcome>((resolve) => {
    execute(run, runtime, (_run, decided) => resolve(decided))
  })
  options.signal?.removeEventListener('abort', stop)
  return {
    state: outcome.to,
    result: outcome.result === undefined ? undefined : (jsonCodec.decode(outcome.result) as R),
    failure: outcome.failure,
    delay: outcome.delay,
    progress,
    logs,
    enqueued: (run.inserts ?? []).map(({ id, name, input: text }) => ({
      id,
      name,
      input: jsonCodec.decode(text),
    })),
  }
}

function claim(job: AnyJob, input: unknown, options: RunJobOptions): ClaimedJob {
  const { queue, lane, maxAttempts, maxCrashes } = job.policy
  const now = Date.now()
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
    overrides: undefined,
    tags: options.tags,
    metadata:
      options.metadata === undefined
        ? undefined
        : jsonCodec.encode(options.metadata, 'metadata', bounds.metadataBytes),
    group: undefined,
    key: undefined,
    suspect: false,
  }
}
