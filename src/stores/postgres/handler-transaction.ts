import type { Held, Settlement, SettleResult, Signal, StoreTransaction } from '../../core/store.js'
import { storeError } from '../../databases/postgres/errors.js'
import { guarded, over } from '../../databases/postgres/guarded.js'
import type { Timeouts } from '../../databases/postgres/options.js'
import type { Transaction } from '../../databases/postgres/transaction.js'
import { exchange } from '../ledger/exchange.js'
import { extend } from '../ledger/extend.js'
import type { PagedTables } from '../page/tables.js'
import type { Desk } from './desk.js'
import { deskNeeds } from './needs.js'

/** Who has to do with it. */
interface Told {
  /** Throws when its store is closed. */
  check(): void
  committed(signal: Signal): void
  over(transaction: HandlerTransaction): void
  /** Where others wait. */
  readonly timeouts: Timeouts
  /** How long it waits for others. */
  readonly lock: number
}

/** The transaction of a handler: what it writes commits with its job, at the desk, or not at all. */
export class HandlerTransaction implements StoreTransaction {
  readonly tx: unknown
  readonly #transaction: Transaction
  readonly #desk: Desk
  readonly #told: Told
  /** What is to be told when it commits. */
  readonly news: Signal[] = []
  #isOver = false

  constructor(transaction: Transaction, desk: Desk, told: Told) {
    this.#transaction = transaction
    this.#desk = desk
    this.#told = told
    this.tx = guarded(transaction.client, () => this.#isOver)
  }

  async settle(worker: string, settlement: Settlement): Promise<SettleResult> {
    const request = { worker, settlements: [settlement], claim: undefined }
    return this.#end(worker, settlement, (tables, now) => exchange(tables, request, now).settled[0] ?? 'lost')
  }

  async report(worker: string, held: Held): Promise<'applied' | 'lost'> {
    return this.#end(worker, held, (tables) => {
      // The lease itself is renewed by others: this one may wait for its commit.
      const lease = tables.workers.get(worker)?.expiresAt ?? 0
      const { lost } = extend(tables, {
        worker,
        lease: Math.max(0, lease - tables.clock.now()),
        held: [held],
      })
      tables.signals.reported([held])
      return lost.length === 0 ? 'applied' : 'lost'
    })
  }

  async rollback(): Promise<void> {
    if (this.#isOver) return
    this.#over()
    await this.#transaction.rollback()
  }

  #over(): void {
    this.#isOver = true
    this.#told.over(this)
  }

  async #end<T extends SettleResult>(
    worker: string,
    held: Pick<Held, 'id' | 'token'>,
    verb: (tables: PagedTables, now: number) => T,
  ): Promise<T | 'lost'> {
    this.#told.check()
    if (this.#isOver) throw over()
    this.#over()
    try {
      const ask = (script: string) => this.#transaction.rows(script)
      // Whoever falls silent at the desk holds up all others, and is not given a handler's time for it.
      const opening = this.#transaction.hasten(this.#told.timeouts, this.#told.lock)
      const { result, tables } = await this.#desk.within(ask, opening, verb, {
        needs: deskNeeds(worker, [held]),
      })
      if (result === 'lost') {
        await this.#transaction.rollback()
        return 'lost'
      }
      await this.#transaction.commit()
      tables.signals.tell()
      for (const signal of [...this.news, ...tables.news]) this.#told.committed(signal)
      return result
    } catch (error) {
      await this.#transaction.rollback(error)
      throw storeError(error)
    }
  }
}
