import { invalid } from '../../../core/options.js'
import { CommitWatch } from '../../../databases/postgres/commit-watch.js'
import { type Connection, openConnection } from '../../../databases/postgres/connection.js'
import { closed } from '../../../databases/postgres/errors.js'
import {
  type CompiledOptions,
  compileOptions,
  type PostgresOptions,
} from '../../../databases/postgres/options.js'
import { Slots } from '../../../databases/postgres/slots.js'
import type { Queryable } from '../../../databases/postgres/transaction.js'
import type { Query } from '../../../databases/postgres/tx/library.js'
import { queryOf } from '../../../databases/postgres/tx/query-of.js'
import { Opening } from '../../../system/opening.js'
import type {
  AdvanceRequest,
  AllPage,
  AllQuery,
  Append,
  AppendResult,
  DeclaredProjection,
  EventLog,
  Held,
  HoldRequest,
  LogCapabilities,
  LogTransaction,
  NewProjection,
  ProjectionRecord,
  RebuildChange,
  SnapshotRecord,
  StreamPage,
  StreamQuery,
  Surplus,
  SurplusQuery,
} from '../../log.js'
import { Reader } from './all.js'
import { Appender } from './append.js'
import { inSchemaOf, planOf } from './in-schema.js'
import { Projections } from './projections.js'
import { makeRetention } from './retention.js'
import { makeSnapshots } from './snapshot.js'
import { makeStream } from './stream.js'
import { handlers, OwnTransaction } from './transaction.js'
import { WakeUps } from './wake-ups.js'

export function postgresLog(options: PostgresOptions): PostgresLog {
  return new PostgresLog(options)
}

/** Events in a PostgreSQL database, beside the caller's own data. */
export class PostgresLog implements EventLog {
  readonly capabilities: LogCapabilities = {
    engine: 'postgres',
    durable: true,
    shared: true,
    synchronous: false,
  }
  readonly #options: CompiledOptions
  #engine: Engine | undefined
  readonly #opening = new Opening(() => this.#connect())
  readonly #transactions = new WeakMap<object, OwnTransaction>()

  constructor(options: PostgresOptions) {
    this.#options = compileOptions(options, 'millrace_events')
    const size = connections(this.#options)
    if (size < 2) throw invalid('poolSize', size, 'at least 2: a projection may need one for itself', 2)
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async #connect(): Promise<void> {
    const { schema } = this.#options
    const connection = await openConnection(this.#options, planOf(schema))
    this.#engine = makeEngine(connection, this.#options)
    await this.#engine.wakeUps.start()
  }

  async close(): Promise<void> {
    await this.#opening.over()
    const engine = this.#engine
    this.#engine = undefined
    this.#opening.forget()
    engine?.commits.stop()
    await engine?.wakeUps.stop()
    await engine?.connection.close()
  }

  async append(appends: readonly Append[], tx?: unknown): Promise<AppendResult[]> {
    const { appender, commits } = this.#open()
    if (tx === undefined) return appender.append(appends)
    const query = this.#queryIn(tx)
    if (appends.length === 0) return []
    const { results, xid } = await appender.within(query, appends)
    const own = this.#ownOf(tx)
    if (own === undefined) commits.watch(xid, undefined)
    else own.hasAppended = true
    return results
  }

  async stream(query: StreamQuery): Promise<StreamPage> {
    return this.#open().stream(query)
  }

  async all(query: AllQuery): Promise<AllPage> {
    return this.#open().reader.all(query)
  }

  async end(): Promise<number> {
    return this.#open().reader.end()
  }

  async begin(): Promise<LogTransaction> {
    const { connection, slots, wakeUps } = this.#open()
    const giveBack = await slots.take()
    try {
      const transaction = await connection.begin({ timeouts: handlers })
      const own = new OwnTransaction(transaction, ({ hasAppended }, committed) => {
        giveBack()
        if (committed && hasAppended) wakeUps.tell()
      })
      this.#transactions.set(own.tx, own)
      return own
    } catch (error) {
      giveBack()
      throw error
    }
  }

  async snapshot(stream: string, name: string): Promise<SnapshotRecord | undefined> {
    return this.#open().snapshots.get(stream, name)
  }

  async keepSnapshot(snapshot: SnapshotRecord): Promise<void> {
    return this.#open().snapshots.keep(snapshot)
  }

  async declare(projection: NewProjection, tx?: unknown): Promise<DeclaredProjection> {
    const { projections } = this.#open()
    return this.#within(tx, (query) => projections.declare(query, projection))
  }

  async forget(name: string, tx?: unknown): Promise<void> {
    const { projections } = this.#open()
    return this.#within(tx, (query) => projections.forget(query, name))
  }

  async projections(): Promise<ProjectionRecord[]> {
    const { connection, projections } = this.#open()
    return projections.list(over(connection))
  }

  async hold(request: HoldRequest): Promise<Held | undefined> {
    const { connection, projections } = this.#open()
    return projections.hold(over(connection), request)
  }

  async advance(request: AdvanceRequest, tx?: unknown): Promise<'advanced' | 'lost'> {
    const { connection, projections } = this.#open()
    if (tx === undefined) return projections.advance(over(connection), request)
    // Given back, it is one of several writes; otherwise the commit is next.
    if (!request.done) await this.#ownOf(tx)?.hasten(this.#options.timeouts)
    return projections.advance(this.#queryIn(tx), request)
  }

  async rebuild(change: RebuildChange, tx?: unknown): Promise<ProjectionRecord> {
    const { projections } = this.#open()
    return this.#within(tx, (query) => projections.rebuild(query, change))
  }

  async surplus(query: SurplusQuery): Promise<Surplus> {
    return this.#open().retention.surplus(query)
  }

  async remove(positions: readonly number[]): Promise<void> {
    return this.#open().retention.remove(positions)
  }

  async erase(stream: string, limit: number): Promise<boolean> {
    return this.#open().retention.erase(stream, limit)
  }

  subscribe(listener: () => void): () => void {
    return this.#open().wakeUps.subscribe(listener)
  }

  /** In the transaction that was given, or in one of its own. */
  #within<T>(tx: unknown, work: (query: Query) => Promise<T>): Promise<T> {
    if (tx !== undefined) return work(this.#queryIn(tx))
    return this.#open().connection.transaction((transaction) => work(over(transaction)))
  }

  #queryIn(tx: unknown): Query {
    return this.#ownOf(tx)?.query ?? queryOf(tx)
  }

  #ownOf(tx: unknown): OwnTransaction | undefined {
    return this.#transactions.get(tx as object)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw closed()
    return this.#engine
  }
}

type Engine = ReturnType<typeof makeEngine>

function makeEngine(connection: Connection, options: CompiledOptions) {
  const { schema, clock, patience } = options
  const inSchema = inSchemaOf(schema)
  const now = () => (clock === undefined ? '' : `${clock.now()}`)
  const wakeUps = new WakeUps(connection, options)
  return {
    connection,
    wakeUps,
    commits: new CommitWatch<undefined>(
      connection,
      () => undefined,
      () => wakeUps.tell(),
    ),
    slots: new Slots(connections(options) - 1, patience),
    appender: new Appender(connection, inSchema, now, () => wakeUps.tell()),
    reader: new Reader(connection, inSchema),
    stream: makeStream(connection, inSchema),
    snapshots: makeSnapshots(connection, inSchema),
    projections: new Projections(inSchema, now),
    retention: makeRetention(connection, inSchema, now),
  }
}

function connections({ pool, poolSize }: CompiledOptions): number {
  return pool === undefined ? poolSize : ((pool.options as { max?: number } | undefined)?.max ?? 10)
}

/** As callers' libraries are spoken with. */
function over(server: Queryable): Query {
  return async (text, values) => (await server.query({ text }, values)).rows
}
