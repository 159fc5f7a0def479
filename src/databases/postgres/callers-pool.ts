import { checkOut, liveliness, refuseAll, type Waiting } from './check-out.js'
import { loadDriver, type PgDriver, type PgOwnClient, type PgPool, type PgPoolClient } from './driver.js'
import type { Timeouts } from './options.js'
import type { ClientPool } from './pool.js'

export class CallersPool implements ClientPool {
  readonly own = false
  readonly hasTimeouts = false
  suspectedAt = 0
  readonly #pool: PgPool
  readonly #timeouts: Timeouts
  readonly #waiting: Waiting = new Set()

  constructor(pool: PgPool, timeouts: Timeouts) {
    this.#pool = pool
    this.#timeouts = timeouts
  }

  checkOut(within: number): Promise<PgPoolClient> {
    return checkOut(this.#pool, within, this.#waiting)
  }

  async apart(): Promise<PgOwnClient> {
    const options = (this.#pool.options ?? {}) as { Client?: PgDriver['Client']; password?: unknown }
    const Client = options.Client ?? (await loadDriver()).Client
    // The pool hides its password from those who list its options.
    return new Client({ ...options, password: options.password, ...liveliness(this.#timeouts) })
  }

  async close(): Promise<void> {
    refuseAll(this.#waiting)
  }
}
