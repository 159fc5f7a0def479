import { MillraceError } from '../../core/errors.js'
import type { PgPoolClient, PgResult } from './driver.js'
import { isLost } from './errors.js'
import type { Timeouts } from './options.js'
import type { Session, Statement } from './session.js'

export interface Result<Row> {
  readonly rows: Row[]
  readonly rowCount: number
}

export interface Queryable {
  // biome-ignore lint/suspicious/noExplicitAny: the statement knows its rows
  query<Row = any>(statement: Statement, values?: readonly unknown[]): Promise<Result<Row>>
}

/** Errors come as the driver has them; whoever began it decides what they mean. */
export class Transaction implements Queryable {
  readonly #session: Session
  #within: number
  #open = true
  #last: Promise<unknown> = Promise.resolve()

  static async begin(session: Session, timeouts: Timeouts | undefined, within: number): Promise<Transaction> {
    try {
      await session.script(beginning(timeouts), within)
      return new Transaction(session, within)
    } catch (error) {
      session.throwAway(error) // it may have begun
      throw error
    }
  }

  constructor(session: Session, within: number) {
    this.#session = session
    this.#within = within
  }

  /** For the caller's own statements inside it. */
  get client(): PgPoolClient {
    return this.#session.client
  }

  // biome-ignore lint/suspicious/noExplicitAny: the statement knows its rows
  async query<Row = any>(statement: Statement, values: readonly unknown[] = []): Promise<Result<Row>> {
    const { rows, rowCount } = await this.#inTurn(() => this.#session.run(statement, values, this.#within))
    return { rows, rowCount: rowCount ?? 0 }
  }

  /** Several statements at once, without values. */
  async script(text: string): Promise<void> {
    await this.#inTurn(() => this.#session.script(text, this.#within))
  }

  /** The same, with the rows of each. */
  rows(text: string): Promise<never[][]> {
    const rows = this.#last.then(() => this.#session.rows(text, this.#within))
    this.#last = rows.catch(() => {})
    return rows
  }

  async commit(): Promise<void> {
    if (!this.#open) return
    this.#open = false
    const { command } = await this.#session.last(() =>
      this.#inTurn(() => this.#session.script('COMMIT', this.#within)),
    )
    if (command !== 'COMMIT') throw rolledBack()
  }

  /**
   * Others wait for this one from now on, so the usual timeouts count, whatever it began with. Returns what tells the
   * server, which is to come before whatever they wait for.
   */
  hasten({ idleInTransaction, answer }: Timeouts, lock: number): string {
    this.#within = Math.min(this.#within, lock + answer)
    return `SET LOCAL idle_in_transaction_session_timeout = ${idleInTransaction}`
  }

  /** `cause`: why; a connection that is lost is not asked. */
  async rollback(cause?: unknown): Promise<void> {
    if (!this.#open) return
    this.#open = false
    if (isLost(cause)) return this.#session.giveBack(cause)
    try {
      // A statement of the caller's that never ends would have it wait; then the connection goes instead.
      await this.#inTurn(() => this.#session.script('ROLLBACK', Math.min(this.#within, rollbackMs)))
    } catch (error) {
      return this.#session.throwAway(error)
    }
    this.#session.giveBack(cause)
  }

  /** Statements may be given all at once; each has its time from when it is its turn. */
  #inTurn(run: () => Promise<PgResult>): Promise<PgResult> {
    const result = this.#last.then(run)
    this.#last = result.catch(() => {})
    return result
  }
}

const rollbackMs = 2_000

/** The verbs count on seeing at each statement what has been committed by then, whatever the database's default. */
export function beginning(timeouts: Timeouts | undefined): string {
  return `BEGIN ISOLATION LEVEL READ COMMITTED${timeouts === undefined ? '' : setTimeouts(timeouts)}`
}

function setTimeouts({ statement, lock, idleInTransaction }: Timeouts): string {
  return `; SET LOCAL statement_timeout = ${statement}; SET LOCAL lock_timeout = ${lock}; SET LOCAL idle_in_transaction_session_timeout = ${idleInTransaction}`
}

function rolledBack(): MillraceError {
  return new MillraceError(
    'STORE_FAILED',
    'PostgreSQL rolled the transaction back: one of its statements had failed',
  )
}
