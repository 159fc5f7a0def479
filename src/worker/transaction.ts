import type { AnyJob } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import type { Capabilities, Settlement, SettleResult, Store, StoreTransaction } from '../core/store.js'

/**
 * The transaction in which an attempt completes: begun when the handler first asks for it, ended by the attempt's
 * settlement or rolled back with the attempt. A handler that goes on after that has nothing to write with.
 */
export class RunTransaction {
  readonly #jobId: string
  readonly #store: () => Store
  #begun: Promise<StoreTransaction> | undefined
  #open: StoreTransaction | undefined
  /** Why there is none any more. */
  #over: MillraceError | undefined

  constructor(jobId: string, store: () => Store) {
    this.#jobId = jobId
    this.#store = store
  }

  /** The handler has asked for it, so the job must not complete without it. */
  get isUsed(): boolean {
    return this.#begun !== undefined
  }

  async tx(): Promise<unknown> {
    if (this.#over !== undefined) throw this.#over
    this.#begun ??= this.#begin()
    return (await this.#begun).tx
  }

  async #begin(): Promise<StoreTransaction> {
    let transaction: StoreTransaction
    try {
      transaction = await this.#store().begin()
    } catch (error) {
      this.#begun = undefined // the handler may ask again
      throw error
    }
    if (this.#over !== undefined) {
      await transaction.rollback()
      throw this.#over
    }
    this.#open = transaction
    return transaction
  }

  /** Commits it with the settlement. Rejects when it could not, with nothing written. */
  async settle(worker: string, settlement: Settlement): Promise<SettleResult> {
    const transaction = await this.#begun
    if (this.#over !== undefined || transaction === undefined) throw this.#over ?? this.#ended()
    this.end()
    return transaction.settle(worker, settlement)
  }

  /** Nothing that is written with it counts any more. */
  async rollback(reason?: MillraceError): Promise<void> {
    const transaction = this.#open
    this.end(reason)
    await transaction?.rollback()
  }

  end(reason = this.#ended()): void {
    this.#over ??= reason
    this.#open = undefined
  }

  #ended(): MillraceError {
    return new MillraceError('LEASE_LOST', `job ${this.#jobId} has ended, and its transaction with it`)
  }
}

export function openTooLong(limit: number): MillraceError {
  return new MillraceError(
    'JOB_TIMEOUT',
    `the job's transaction was open for ${limit} ms, half of its worker's lease, which cannot be renewed meanwhile; ask for \`tx\` later, end sooner, or give the worker a longer lease`,
    { field: 'lease', limit },
  )
}

export function notTransactional(job: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `job '${job}' has no transaction; set transactional: true on its definition`,
    { field: 'transactional' },
  )
}

export function stepsRun(job: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `a '${job}' job asked for tx() while steps of it run, which could not be written before the job ends; await them first`,
    { field: 'tx' },
  )
}

/** Said at the start: a handler that can never complete must not spend the attempts of its jobs. */
export function refuseWithoutTransactions(
  jobs: Iterable<AnyJob>,
  { engine, transactions }: Capabilities,
): void {
  const job = [...jobs].find(({ transactional }) => transactional)
  if (job === undefined || transactions) return
  throw new MillraceError(
    'STORE_REFUSED',
    `job '${job.name}' is transactional, and the ${engine} store has no transactions; use an engine that has, such as SQLite, or leave the job to other workers`,
    { field: 'transactional', value: engine },
  )
}
