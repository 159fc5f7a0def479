/**
 * Where connections come from: a pool of our own, or the caller's. Our own is given timeouts as it connects, which a
 * pooler such as PgBouncer may refuse; then it goes without, and each transaction sets them for itself, as it does in
 * the caller's pool.
 */
import { CallersPool } from './callers-pool.js'
import { loadDriver, type PgOwnClient, type PgPoolClient } from './driver.js'
import type { CompiledOptions } from './options.js'
import { OwnPool } from './own-pool.js'

export interface ClientPool {
  /** Every connection has our timeouts. Otherwise transactions have to set them. */
  readonly hasTimeouts: boolean
  /** Nobody else uses these connections, so what one remembers is what we told it. */
  readonly own: boolean
  /** When a server last left a question unanswered: connections that are older than that may all be dead. */
  suspectedAt: number
  checkOut(within: number): Promise<PgPoolClient>
  /** One more connection to the same server, apart from the pool; not connected yet. */
  apart(): Promise<PgOwnClient>
  close(): Promise<void>
}

export async function makePool(options: CompiledOptions): Promise<ClientPool> {
  return options.pool === undefined
    ? new OwnPool(await loadDriver(), options)
    : new CallersPool(options.pool, options.timeouts)
}
