import { setTimeout as sleep } from 'node:timers/promises'
import { checkOut, liveliness, refuseAll, type Waiting } from './check-out.js'
import {
  type PgClient,
  type PgDriver,
  type PgOwnClient,
  type PgOwnPool,
  type PgPoolClient,
  sever,
} from './driver.js'
import { closed, isStartupRefused } from './errors.js'
import type { CompiledOptions, Timeouts } from './options.js'
import type { ClientPool } from './pool.js'

export class OwnPool implements ClientPool {
  readonly own = true
  suspectedAt = 0
  hasTimeouts = true
  readonly #driver: PgDriver
  readonly #options: CompiledOptions
  readonly #clients = new Set<PgClient>()
  readonly #waiting: Waiting = new Set()
  #pool: PgOwnPool
  #closed = false

  constructor(driver: PgDriver, options: CompiledOptions) {
    this.#driver = driver
    this.#options = options
    this.#pool = this.#make(startupTimeouts(options.timeouts))
  }

  async checkOut(within: number): Promise<PgPoolClient> {
    if (this.#closed) throw closed()
    const pool = this.#pool
    try {
      return await checkOut(pool, within, this.#waiting)
    } catch (error) {
      if (!isStartupRefused(error)) throw error
      if (pool === this.#pool) this.#goWithoutTimeouts()
      return checkOut(this.#pool, within, this.#waiting)
    }
  }

  async apart(): Promise<PgOwnClient> {
    return new this.#driver.Client(clientConfig(this.#options))
  }

  /** A connection that does not come back in time is cut off. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    refuseAll(this.#waiting) // the pool would forget them
    this.#pool.end().catch(ignore)
    const deadline = performance.now() + goodbyeMs
    while (this.#clients.size > 0 && performance.now() < deadline) await sleep(5)
    for (const client of this.#clients) sever(client)
  }

  #goWithoutTimeouts(): void {
    this.hasTimeouts = false
    this.#pool.end().catch(ignore)
    this.#pool = this.#make({})
  }

  #make(timeouts: object): PgOwnPool {
    const pool = new this.#driver.Pool({
      ...clientConfig(this.#options),
      ...timeouts,
      max: this.#options.poolSize,
      idleTimeoutMillis: idleMs,
      allowExitOnIdle: true,
    })
    // An idle connection that ends is replaced when it is needed; without a listener it would end the process.
    pool.on('error', ignore)
    pool.on('connect', (client) => {
      client.on('error', ignore)
      this.#clients.add(client)
    })
    pool.on('remove', (client) => this.#clients.delete(client))
    return pool
  }
}

const idleMs = 60_000
const goodbyeMs = 2_000

function ignore(): void {}

function clientConfig({ url, timeouts }: CompiledOptions): object {
  return { connectionString: url, application_name: 'millrace', ...liveliness(timeouts) }
}

function startupTimeouts({ statement, lock, idleInTransaction }: Timeouts): object {
  return {
    statement_timeout: statement,
    lock_timeout: lock,
    idle_in_transaction_session_timeout: idleInTransaction,
  }
}
