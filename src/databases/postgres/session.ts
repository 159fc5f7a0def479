/** A connection of the pool while it is ours: greeted when it is new, given back whole, thrown away when it is not. */
import { ask } from './ask.js'
import { type PgPoolClient, type PgQuery, type PgResult, processId, sever } from './driver.js'
import { isLost, NoAnswer, ReadOnlyServer } from './errors.js'
import type { ClientPool } from './pool.js'
import { types } from './types.js'

export interface Statement {
  readonly text: string
  /**
   * Prepared once per connection under this name, where that is safe: a pooler may send each transaction to another
   * server connection, which knows nothing of it (PgBouncer before 1.21, and later ones unless they are told to).
   */
  readonly name?: string
}

export async function openSession(pool: ClientPool, within: number): Promise<Session> {
  const session = new Session(await checkOut(pool, within), pool)
  try {
    await session.greet(within)
  } catch (error) {
    session.throwAway(error)
    throw error
  }
  return session
}

/** Trying each of many dead connections in turn would outlast all patience, so suspects are thrown away unasked. */
async function checkOut(pool: ClientPool, within: number): Promise<PgPoolClient> {
  for (;;) {
    const client = await pool.checkOut(within)
    // While it is checked out the pool does not listen, and an error that nobody hears would end the process.
    client.on('error', ignore)
    if ((greeted.get(client)?.at ?? Number.POSITIVE_INFINITY) >= pool.suspectedAt) return client
    discard(client)
  }
}

function discard(client: PgPoolClient): void {
  sever(client)
  client.release(true)
}

export class Session {
  readonly client: PgPoolClient
  readonly #pool: ClientPool

  constructor(client: PgPoolClient, pool: ClientPool) {
    this.client = client
    this.#pool = pool
  }

  /** Refuses a new connection that leads to a standby, and finds out whether it leads through a pooler. */
  async greet(within: number): Promise<void> {
    if (greeted.has(this.client)) return
    const at = performance.now()
    const { rows } = await ask(this.client, { text: greeting, types }, within)
    const { pid, read_only } = rows[0] as { pid: number; read_only: boolean }
    if (read_only) throw new ReadOnlyServer()
    greeted.set(this.client, { at, direct: processId(this.client) === pid })
  }

  run({ name, text }: Statement, values: readonly unknown[], within: number): Promise<PgResult> {
    const query: PgQuery = { text, values: values as unknown[], types }
    const named = name !== undefined && this.#pool.own && greeted.get(this.client)?.direct === true
    return ask(this.client, named ? { ...query, name } : query, within)
  }

  /** Several statements at once, without values. */
  script(text: string, within: number): Promise<PgResult> {
    return ask(this.client, { text, types }, within)
  }

  /** The same, with the rows of each. */
  async rows(text: string, within: number): Promise<never[][]> {
    const results: unknown = await this.script(text, within)
    return (Array.isArray(results) ? results : [results]).map(({ rows }) => rows as never[])
  }

  /** Gives the connection back after this, whatever comes of it. */
  async last(work: () => Promise<PgResult>): Promise<PgResult> {
    let result: PgResult
    try {
      result = await work()
    } catch (error) {
      this.giveBack(error)
      throw error
    }
    this.giveBack()
    return result
  }

  giveBack(error?: unknown): void {
    if (isLost(error)) return this.throwAway(error)
    this.client.release()
    this.client.off('error', ignore)
  }

  throwAway(error: unknown): void {
    if (error instanceof NoAnswer) this.#pool.suspectedAt = performance.now()
    discard(this.client)
  }
}

const greeted = new WeakMap<PgPoolClient, { readonly at: number; readonly direct: boolean }>()

/** Behind a pooler the server's own id differs from the one that the pooler gave us. */
export const greeting = `SELECT pg_backend_pid() AS pid,
  pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS read_only`

function ignore(): void {}
