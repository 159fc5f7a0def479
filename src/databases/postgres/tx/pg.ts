import { has, type Library, rowsOf } from './library.js'

interface Client {
  query(text: string, values: readonly string[]): Promise<unknown>
  /** 'I' outside of a transaction. Older versions have none. */
  getTransactionStatus?(): string | null
  readonly readyForQuery?: boolean
}

/** Also what behaves like it: a client of Neon, of PGlite, the task of pg-promise. */
export const pg: Library<Client> = {
  accepts: 'pg (a Client or PoolClient after BEGIN)',
  isOurs: (tx): tx is Client => has(tx, 'query'),
  notOne(client) {
    if ('totalCount' in client) return 'a pool, each of whose statements may go over another connection'
    // While a statement is on its way, which may be BEGIN, the status is that before it.
    const isIdle = client.readyForQuery === true && client.getTransactionStatus?.() === 'I'
    return isIdle ? 'a pg client outside of a transaction' : undefined
  },
  query: (client) => async (text, values) => rowsOf(await client.query(text, values)),
}
