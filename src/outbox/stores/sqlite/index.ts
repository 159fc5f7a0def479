import type { Clock } from '../../../core/clock.js'
import { MillraceError } from '../../../core/errors.js'
import { atomically, callersDatabase } from '../../../databases/sqlite/callers.js'
import { Changes } from '../../../databases/sqlite/changes.js'
import {
  type Connection,
  type ConnectionOptions,
  type Database,
  openConnection,
  storeError,
} from '../../../databases/sqlite/connection.js'
import { compileOptions, type SqliteOptions } from '../../../databases/sqlite/options.js'
import { Opening } from '../../../system/opening.js'
import { Listeners } from '../../listeners.js'
import type {
  AsideQuery,
  AsideRow,
  Claim,
  ClaimRequest,
  Kind,
  NewRow,
  OutboxFigures,
  OutboxStore,
  PruneRequest,
} from '../../store.js'
import { makeClaim } from './claim.js'
import { makeLook } from './look.js'
import { makePrune } from './prune.js'
import { makeReceive } from './receive.js'
import { migrations } from './sql.generated.js'
import { makeWrite } from './write.js'

export function sqliteOutbox(options: SqliteOptions): SqliteOutbox {
  return new SqliteOutbox(options)
}

const plan = { table: 'millrace_outbox_schema', migrations }

/** An outbox in a SQLite file, beside the caller's own tables. */
export class SqliteOutbox implements OutboxStore {
  readonly capabilities = { engine: 'sqlite', synchronous: true, replication: false }
  readonly #options: ConnectionOptions
  readonly #clock: Clock
  readonly #listeners = new Listeners()
  readonly #opening = new Opening(() => this.#connect())
  /** Over connections of callers. */
  readonly #callers = new WeakMap<Database, ReturnType<typeof makeCaller>>()
  #engine: ReturnType<typeof makeEngine> | undefined

  constructor(options: SqliteOptions) {
    const { clock, ...connection } = compileOptions(options)
    this.#clock = clock
    this.#options = connection
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async #connect(): Promise<void> {
    const connection = await openConnection(this.#options, plan)
    const changes = new Changes(connection, () => this.#listeners.tell([undefined]))
    changes.start()
    this.#engine = makeEngine(connection, changes, this.#clock)
  }

  async close(): Promise<void> {
    await this.#opening.over()
    const engine = this.#engine
    this.#engine = undefined
    this.#opening.forget()
    engine?.changes.stop()
    await engine?.connection.close()
  }

  write(rows: readonly NewRow[], tx: unknown): Promise<void> {
    this.#inCallers(tx, (caller) => {
      for (const row of rows) caller.write(row)
    })
    return Promise.resolve()
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    return this.#open().claim(request)
  }

  follow(): Promise<never> {
    return Promise.reject(
      new MillraceError('STORE_REFUSED', "SQLite replicates to nobody; use source 'poll'", {
        field: 'source',
      }),
    )
  }

  async figures(): Promise<OutboxFigures> {
    return this.#open().figures()
  }

  async listAside(query: AsideQuery): Promise<readonly AsideRow[]> {
    return this.#open().listAside(query)
  }

  async retryAside(ids: readonly string[]): Promise<readonly string[]> {
    const { connection, retryAside } = this.#open()
    const retried = await connection.write(() => retryAside(ids))
    this.#listeners.tell([undefined])
    return retried
  }

  async discardAside(ids: readonly string[]): Promise<readonly string[]> {
    const { connection, discardAside } = this.#open()
    return connection.write(() => discardAside(ids))
  }

  async prune(request: PruneRequest): Promise<boolean> {
    const { connection, prune } = this.#open()
    return connection.write(() => prune(request))
  }

  receive(consumer: string, id: string, tx: unknown): boolean {
    return this.#inCallers(tx, (caller) => caller.receive(consumer, id))
  }

  subscribe(listener: (kind: Kind | undefined) => void): () => void {
    return this.#listeners.add(listener)
  }

  /** The caller commits; our own connection sees then that the file has changed. */
  #inCallers<T>(tx: unknown, work: (caller: ReturnType<typeof makeCaller>) => T): T {
    this.#open()
    const db = callersDatabase(tx, this.#options.file, 'the outbox is')
    let caller = this.#callers.get(db)
    if (caller === undefined) {
      caller = makeCaller(db, this.#clock)
      this.#callers.set(db, caller)
    }
    const made = caller
    try {
      return atomically(db, () => work(made))
    } catch (error) {
      throw storeError(error)
    }
  }

  #open(): ReturnType<typeof makeEngine> {
    if (this.#engine === undefined) throw new MillraceError('CLOSED', 'the outbox is not open')
    return this.#engine
  }
}

function makeEngine(connection: Connection, changes: Changes, clock: Clock) {
  const { db } = connection
  return {
    connection,
    changes,
    claim: makeClaim(connection, clock),
    prune: makePrune(db, clock),
    ...makeLook(db, clock),
  }
}

function makeCaller(db: Database, clock: Clock) {
  return { write: makeWrite(db, clock), receive: makeReceive(db, clock) }
}
