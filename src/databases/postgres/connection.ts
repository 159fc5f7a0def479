/**
 * What the verbs speak with. Each statement or transaction is tried until it works or `patience` is over: every verb is
 * idempotent, so one whose answer was lost may be done again. Works through PgBouncer in transaction mode: nothing is
 * kept in a session between two transactions.
 */
import { setMaxListeners } from 'node:events'
import { checkServer } from './check-server.js'
import { isLost } from './errors.js'
import { migrate, type SchemaPlan } from './migrate.js'
import type { CompiledOptions, Timeouts } from './options.js'
import { type ClientPool, makePool } from './pool.js'
import { retrying } from './retry.js'
import { openSession, type Session, type Statement } from './session.js'
import { beginning, type Queryable, type Result, Transaction } from './transaction.js'

/** Sends several statements in one message; the rows of each come back. */
export type Ask = (script: string) => Promise<readonly (readonly never[])[]>

export interface Effort {
  /** Milliseconds to go on trying. */
  readonly patience?: number
  /** Instead of the usual ones; inside a transaction only. */
  readonly timeouts?: Timeouts
}

/** Waits for a server that is not there yet, and brings its schema up to date. */
export async function openConnection(options: CompiledOptions, plan: SchemaPlan): Promise<Connection> {
  const connection = new Connection(await makePool(options), options)
  try {
    await checkServer(connection)
    await migrate(connection, plan)
    return connection
  } catch (error) {
    await connection.close()
    throw error
  }
}

export class Connection implements Queryable {
  readonly pool: ClientPool
  readonly #patience: number
  readonly #timeouts: Timeouts
  readonly #closing = new AbortController()

  constructor(pool: ClientPool, { patience, timeouts }: Pick<CompiledOptions, 'patience' | 'timeouts'>) {
    this.pool = pool
    this.#patience = patience
    this.#timeouts = timeouts
    // All that wait for an outage to end listen to it, however many they are.
    setMaxListeners(0, this.#closing.signal)
  }

  /** One round trip, committed when it resolves. */
  // biome-ignore lint/suspicious/noExplicitAny: the statement knows its rows
  query<Row = any>(
    statement: Statement,
    values: readonly unknown[] = [],
    { patience = this.#patience }: Effort = {},
  ): Promise<Result<Row>> {
    return retrying(patience, this.#closing.signal, async (left) => {
      const session = await this.#session(left)
      const within = Math.min(left, this.#timeouts.answer)
      const { rows, rowCount } = await session.last(() => session.run(statement, values, within))
      return { rows, rowCount: rowCount ?? 0 }
    })
  }

  /** Commits what `work` did when it resolves, and nothing when it rejects. `work` may run several times. */
  transaction<T>(work: (transaction: Transaction) => Promise<T>, effort: Effort = {}): Promise<T> {
    const { patience = this.#patience, timeouts } = effort
    return retrying(patience, this.#closing.signal, async (left) => {
      const transaction = await this.#begin(left, timeouts, Math.min(left, this.#timeouts.answer))
      try {
        const result = await work(transaction)
        await transaction.commit()
        return result
      } catch (error) {
        await transaction.rollback(error)
        throw error
      }
    })
  }

  /**
   * For those who begin and commit in their scripts, which are several statements each, so that both cost no round trip of
   * their own. `work` may run several times.
   */
  scripts<T>(
    work: (ask: Ask, begin: string) => Promise<T>,
    { patience = this.#patience }: Effort = {},
  ): Promise<T> {
    return retrying(patience, this.#closing.signal, async (left) => {
      const session = await this.#session(left)
      const within = Math.min(left, this.#timeouts.answer)
      try {
        const result = await work(
          (script) => session.rows(script, within),
          beginning(this.pool.hasTimeouts ? undefined : this.#timeouts),
        )
        session.giveBack()
        return result
      } catch (error) {
        await leave(session, error, within)
        throw error
      }
    })
  }

  /** For whoever commits by hand; only the beginning is tried again. */
  begin({ patience = this.#patience, timeouts }: Effort = {}): Promise<Transaction> {
    return retrying(patience, this.#closing.signal, (left) =>
      this.#begin(left, timeouts, this.#timeouts.answer),
    )
  }

  /** What is still being tried is rejected. The caller's pool stays open. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.pool.close()
  }

  async #begin(left: number, timeouts: Timeouts | undefined, within: number): Promise<Transaction> {
    const session = await this.#session(left)
    const needed = timeouts ?? (this.pool.hasTimeouts ? undefined : this.#timeouts)
    return Transaction.begin(session, needed, timeouts?.answer ?? within)
  }

  #session(left: number): Promise<Session> {
    return openSession(this.pool, Math.min(left, this.#timeouts.connect))
  }
}

/** A transaction that it was in is rolled back. */
async function leave(session: Session, cause: unknown, within: number): Promise<void> {
  if (isLost(cause)) return session.giveBack(cause)
  try {
    await session.script('ROLLBACK', within)
  } catch (error) {
    return session.throwAway(error)
  }
  session.giveBack(cause)
}
