import type { Runtime } from '../client/runtime.js'
import { MillraceError } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import type { StepRecord } from '../core/step.js'
import type { FanClose, Held } from '../core/store.js'
import { gather } from '../system/turn.js'
import { leaseLost } from './lease.js'
import type { Run } from './run.js'
import type { StepTransaction } from './step-host.js'

/** Where the steps of runs are kept. */
export interface StepStore {
  /** Those of earlier runs. */
  read(run: Run): Promise<readonly StepRecord[]>
  /** Resolves when they are stored. Rejects with LEASE_LOST when the run may write no more. */
  write(run: Run, steps: readonly StepRecord[]): Promise<void>
  /** Adds children of its job, together with these steps; resolves when they are there. */
  insert(run: Run, jobs: readonly NewJob[], steps: readonly StepRecord[]): Promise<void>
  /** How often children of its job's steps were replayed, up to now. */
  replays(run: Run): Promise<number>
  /** Its children of this fan stay as they ended. Resolves with false when one was replayed since it was read. */
  close(run: Run, close: FanClose): Promise<boolean>
  begin(run: Run): Promise<StepTransaction>
  /** Steps that are being written: its outcome may overtake them. */
  unwritten(run: Run): readonly StepRecord[]
}

/** Who hears what an answer brings besides. */
export interface StepListener {
  lost(id: string, token: string): void
  cancel(id: string, reason: string): void
}

interface Waiting {
  readonly run: Run
  readonly wrote: Wrote
  /** With the fans that were not closed. */
  readonly resolve: (open: readonly string[]) => void
  readonly reject: (error: unknown) => void
}

interface Wrote {
  readonly steps?: readonly StepRecord[]
  readonly inserts?: readonly NewJob[]
  readonly closes?: readonly FanClose[]
}

const nothing: readonly StepRecord[] = []
const firstRetryMs = 50
const longestRetryMs = 5_000

/**
 * Keeps the steps of a worker's runs in its store. All of one turn of the event loop share a write. What a step did
 * has happened, so a store that does not answer is asked until it does, or the run has ended.
 */
export class StepKeeper implements StepStore {
  readonly #runtime: Runtime
  readonly #worker: string
  readonly #lease: number
  readonly #listener: StepListener
  #waiting: Waiting[] = []
  readonly #unanswered = new Set<Waiting>()

  constructor(runtime: Runtime, worker: string, lease: number, listener: StepListener) {
    this.#runtime = runtime
    this.#worker = worker
    this.#lease = lease
    this.#listener = listener
  }

  async read(run: Run): Promise<readonly StepRecord[]> {
    if (!run.job.stepped) return []
    for (let failures = 0; ; failures++) {
      try {
        const trail = await this.#runtime.store.trail(run.job.id)
        // A job that runs cannot be removed, so it is another's by now.
        if (trail === undefined) throw this.#lost(run)
        return trail.steps
      } catch (error) {
        if (run.ended || run.stopped !== undefined) throw error
        this.#tell(error)
        await new Promise<void>((resolve) => this.#runtime.clock.after(this.#pause(failures), resolve))
      }
    }
  }

  async write(run: Run, steps: readonly StepRecord[]): Promise<void> {
    await this.#add(run, { steps })
  }

  async insert(run: Run, inserts: readonly NewJob[], steps: readonly StepRecord[]): Promise<void> {
    await this.#add(run, { steps, inserts })
  }

  async replays(run: Run): Promise<number> {
    const [record] = await this.#runtime.store.get([run.job.id])
    return record?.family?.replays ?? 0
  }

  async close(run: Run, close: FanClose): Promise<boolean> {
    const open = await this.#add(run, { closes: [close] })
    return !open.includes(close.fan)
  }

  #add(run: Run, wrote: Wrote): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) gather(() => this.#flush())
      const entry = { run, wrote, resolve, reject }
      this.#waiting.push(entry)
      this.#unanswered.add(entry)
    })
  }

  unwritten(run: Run): readonly StepRecord[] {
    if (this.#unanswered.size === 0) return nothing
    const entries = [...this.#unanswered].filter((entry) => entry.run === run)
    // Children and the step that added them are written together, or not at all.
    return entries.flatMap(({ wrote }) => (wrote.inserts === undefined ? (wrote.steps ?? []) : []))
  }

  /** Nobody else can write while it is open, so it does not outlive what its run may do, nor half a lease. */
  async begin(run: Run): Promise<StepTransaction> {
    const { store, clock } = this.#runtime
    if (!store.capabilities.transactions) throw noTransactions(store.capabilities.engine)
    const transaction = await store.begin()
    let tell: (reason: unknown) => void = () => {}
    const over = new Promise<never>((_, reject) => {
      tell = reject
    })
    over.catch(() => {})
    const stop = (reason: unknown) => {
      tell(reason)
      transaction.rollback().catch((error: unknown) => this.#tell(error))
    }
    const { signal } = run
    const onAbort = () => stop(signal.reason)
    const cancelTimer = clock.after(this.#lease / 2, () => stop(openTooLong(this.#lease / 2)))
    const finish = () => {
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    return {
      tx: transaction.tx,
      over,
      commit: async (steps) => {
        finish()
        const result = await transaction.report(this.#worker, heldBy(run, { steps }))
        if (result === 'lost') throw this.#lost(run)
      },
      rollback: () => {
        finish()
        return transaction.rollback()
      },
    }
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = []
    void this.#send(waiting, 0)
  }

  async #send(waiting: readonly Waiting[], failures: number): Promise<void> {
    const runs = new Map<Run, Waiting[]>()
    for (const entry of waiting) {
      if (entry.run.ended) this.#reject(entry, leaseLost(entry.run.job.id))
      else runs.set(entry.run, [...(runs.get(entry.run) ?? []), entry])
    }
    if (runs.size === 0) return
    const held = [...runs].map(([run, entries]) =>
      heldBy(run, {
        steps: entries.flatMap(({ wrote }) => wrote.steps ?? []),
        inserts: entries.flatMap(({ wrote }) => wrote.inserts ?? []),
        closes: entries.flatMap(({ wrote }) => wrote.closes ?? []),
      }),
    )
    try {
      const { store } = this.#runtime
      const request = { worker: this.#worker, lease: this.#lease, held }
      const { lost, cancels, open } = await store.extend(request)
      for (const [run, entries] of runs) this.#answer(run, entries, lost.includes(run.job.id), open)
      for (const { id, reason } of cancels) this.#listener.cancel(id, reason)
    } catch (error) {
      this.#tell(error)
      this.#runtime.clock.after(this.#pause(failures), () => {
        void this.#send([...runs.values()].flat(), failures + 1)
      })
    }
  }

  #answer(run: Run, entries: readonly Waiting[], isLost: boolean, open: readonly string[]): void {
    const error = isLost ? this.#lost(run) : undefined
    for (const entry of entries) {
      if (error !== undefined) {
        this.#reject(entry, error)
        continue
      }
      this.#unanswered.delete(entry)
      entry.resolve(open)
    }
  }

  #reject(entry: Waiting, error: MillraceError): void {
    this.#unanswered.delete(entry)
    entry.reject(error)
  }

  #lost({ job: { id, token } }: Run): MillraceError {
    this.#listener.lost(id, token)
    return leaseLost(id)
  }

  #tell(error: unknown): void {
    this.#runtime.events.emit('error', { error, during: 'step' })
  }

  #pause(failures: number): number {
    const pause = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures, 10))
    return pause * (0.5 + this.#runtime.random() / 2)
  }
}

function heldBy({ job: { id, token } }: Run, wrote: Wrote): Held {
  return { id, token, progress: undefined, logs: undefined, ...wrote }
}

export function noTransactions(engine: string): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `the ${engine} store has no transactions, so step.transaction cannot commit with your writes; use step() and its key, or an engine that shares your database`,
    { field: 'step.transaction' },
  )
}

function openTooLong(limit: number): MillraceError {
  return new MillraceError(
    'JOB_TIMEOUT',
    `the transaction of a step was open for ${limit} ms, half of its worker's lease, which cannot be renewed meanwhile; do less in it, or give the worker a longer lease`,
    { field: 'lease', limit },
  )
}
