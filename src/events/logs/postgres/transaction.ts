import { storeError } from '../../../databases/postgres/errors.js'
import { guarded, over } from '../../../databases/postgres/guarded.js'
import type { Timeouts } from '../../../databases/postgres/options.js'
import type { Transaction } from '../../../databases/postgres/transaction.js'
import type { Query } from '../../../databases/postgres/tx/library.js'
import type { LogTransaction } from '../../log.js'

/** A projection takes its time; whoever holds its lease ends one that takes too much. */
export const handlers: Timeouts = {
  statement: 60_000,
  lock: 10_000,
  idleInTransaction: 60_000,
  answer: 62_000,
  connect: 5_000,
}

/** A transaction of the log's own: `tx` is a client of pg. What the log itself does in it waits for no answer for ever. */
export class OwnTransaction implements LogTransaction {
  readonly tx: object
  readonly #transaction: Transaction
  readonly #ended: (own: OwnTransaction, committed: boolean) => void
  #isOver = false
  #isHastened = false
  /** It has something to tell when it commits. */
  hasAppended = false

  constructor(transaction: Transaction, ended: (own: OwnTransaction, committed: boolean) => void) {
    this.#transaction = transaction
    this.#ended = ended
    this.tx = guarded(transaction.client, () => this.#isOver)
  }

  readonly query: Query = async (text, values) => {
    if (this.#isOver) throw over()
    return (await this.#transaction.query({ text }, values)).rows
  }

  /** Its checkpoint is nobody's until it is over, so from now on it may not be silent for as long as a handler may. */
  async hasten(usual: Timeouts): Promise<void> {
    if (this.#isHastened) return
    this.#isHastened = true
    await this.#transaction.script(this.#transaction.hasten(usual, usual.lock))
  }

  async commit(): Promise<void> {
    if (this.#isOver) throw over()
    this.#isOver = true
    try {
      await this.#transaction.commit()
    } catch (error) {
      this.#ended(this, false)
      throw storeError(error)
    }
    this.#ended(this, true)
  }

  async rollback(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    await this.#transaction.rollback()
    this.#ended(this, false)
  }
}
