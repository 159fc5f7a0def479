import type { Runtime } from '../client/runtime.js'
import { type BatchContext, type CompiledBatch, isError, outcomesOf } from '../core/batch.js'
import type { AnyJob } from '../core/definition.js'
import { isOld } from '../core/evolution.js'
import type { ClaimedJob } from '../core/job.js'
import { cancelled, type Outcome } from '../core/lifecycle.js'
import { belonging } from '../core/traffic/options.js'
import { concludeError, concludeValue, readInput } from './execute.js'
import type { Run } from './run.js'
import { versionOf } from './screen.js'

type Done = (run: Run, outcome: Outcome) => void

/**
 * Runs one attempt of many jobs: decode and parse each → call once → conclude each. `done` gets an outcome for
 * every run, never an exception. A job whose input is refused fails by itself and leaves the batch.
 */
export async function executeBatch(runs: readonly Run[], runtime: Runtime, done: Done): Promise<void> {
  const { members, inputs } = await read(runs, runtime, done)
  const [first] = members
  if (first === undefined) return
  const { name, batch } = first.definition
  let outcomes: readonly unknown[]
  try {
    const returned = await (batch as CompiledBatch).run(inputs, new Together(members))
    outcomes = outcomesOf(name, returned, members.length)
  } catch (error) {
    for (const run of members) done(run, concludeError(run, runtime, error))
    return
  }
  members.forEach((run, i) => {
    done(run, concludeOutcome(run, runtime, outcomes[i]))
  })
}

async function read(
  runs: readonly Run[],
  runtime: Runtime,
  done: Done,
): Promise<{ members: Run[]; inputs: unknown[] }> {
  const parsed = await Promise.allSettled(runs.map(async (run) => readInput(run, runtime)))
  const members: Run[] = []
  const inputs: unknown[] = []
  for (const [i, result] of parsed.entries()) {
    const run = runs[i] as Run
    if (result.status === 'rejected') {
      done(run, concludeError(run, runtime, result.reason))
    } else if (!run.ended) {
      members.push(run)
      inputs.push(result.value)
    }
  }
  return { members, inputs }
}

function concludeOutcome(run: Run, runtime: Runtime, outcome: unknown): Outcome {
  if (isError(outcome)) return concludeError(run, runtime, outcome)
  // Its outcome does not tell whether the handler heeded the cancel, so the word of who asked for it stands.
  if (run.cancelled !== undefined) return cancelled(run.cancelled, run.policy.retain)
  return concludeValue(run, runtime, outcome)
}

/** The context of one call: each job has its own signal, and the call's aborts when all of those have. */
class Together implements BatchContext {
  readonly jobs: readonly Run[]
  readonly size: number
  #controller: AbortController | undefined

  constructor(jobs: readonly Run[]) {
    this.jobs = jobs
    this.size = jobs.length
  }

  get signal(): AbortSignal {
    this.#controller ??= this.#listen()
    return this.#controller.signal
  }

  #listen(): AbortController {
    const controller = new AbortController()
    let left = this.size
    for (const { signal } of this.jobs) {
      const stop = () => {
        if (--left === 0) controller.abort(signal.reason)
      }
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    }
    return controller
  }
}

/** Made of the input as it was enqueued. A job that has none for all to see runs by itself. */
export function batchKey(definition: AnyJob, job: ClaimedJob, runtime: Runtime): string | undefined {
  const { name, batch, evolution } = definition
  if (batch?.by === undefined) return ''
  // `by` knows inputs of today, and making one of an older input may take a wait.
  if (isOld(evolution, versionOf(job))) return undefined
  try {
    const key = batch.by(runtime.codec.decode(job.input))
    return key === undefined || key === null ? '' : belonging(key, 'batch.by()')
  } catch (error) {
    runtime.events.emit('error', { error, during: `batch.by of job '${name}'` })
    return undefined
  }
}
