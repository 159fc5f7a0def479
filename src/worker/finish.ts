import type { Runtime } from '../client/runtime.js'
import type { ClaimedJob } from '../core/job.js'
import type { Outcome } from '../core/lifecycle.js'
import { announce } from './announce.js'
import { concludeError } from './execute.js'
import type { Run } from './run.js'
import { type Exchange, settlementOf } from './settle.js'
import type { Slots } from './slots.js'
import type { RunTransaction } from './transaction.js'
import type { UnstartedJobs } from './unstarted.js'

export interface FinisherParts {
  readonly worker: string
  readonly runtime: Runtime
  readonly runs: Set<Run>
  readonly slots: Slots
  readonly unstarted: UnstartedJobs
  readonly exchange: Exchange
  /** A slot is free. */
  freed(): void
  /** A run was settled without an exchange. */
  committed(): void
}

/** Sends the outcomes of runs on their way, and frees their slots. */
export class Finisher {
  readonly #parts: FinisherParts

  constructor(parts: FinisherParts) {
    this.#parts = parts
  }

  /** The handler is done, or what had to be done instead of it. */
  readonly finish = (run: Run, outcome: Outcome): void => {
    if (run.ended) return
    if (outcome.to === 'completed' && run.transaction?.isUsed)
      void this.#commit(run, run.transaction, outcome)
    else this.end(run, outcome)
  }

  /** Settles it in its handler's transaction. One that cannot commit has failed. */
  async #commit(run: Run, transaction: RunTransaction, outcome: Outcome): Promise<void> {
    const { worker, runtime, committed } = this.#parts
    run.ended = true
    run.deadline = Number.POSITIVE_INFINITY
    const settlement = settlementOf(run.job, outcome, run)
    try {
      const result = await transaction.settle(worker, settlement)
      announce(run, outcome, result, runtime)
    } catch (error) {
      return this.end(run, concludeError(run, runtime, error))
    }
    this.#free(run)
    committed()
  }

  /** The exit of a run: its slot is free, its outcome is on its way, and nothing it does counts any more. */
  readonly end = (run: Run, outcome: Outcome): void => {
    run.ended = true
    run.rollback()
    run.kill?.()
    this.#parts.exchange.settle(run.job, outcome, run)
    if (outcome.hold > 0) this.#giveBackHeld(run.job)
    this.#free(run)
  }

  /** The other side wants no more of these for a while: those that have not started wait with the rest. */
  #giveBackHeld({ name, key }: ClaimedJob): void {
    const { exchange, unstarted } = this.#parts
    exchange.giveBack(unstarted.remove((other) => other.name === name && other.key === key))
  }

  #free(run: Run): void {
    const { runs, slots, freed } = this.#parts
    runs.delete(run)
    slots.alone = false
    // The slot of a batch is free when its last job has ended.
    if (run.batch !== undefined && --run.batch.left > 0) return
    slots.free(run.job.lane)
    freed()
  }
}
