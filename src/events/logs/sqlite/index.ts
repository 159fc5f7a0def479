import type { Clock } from '../../../core/clock.js'
import { atomically, callersDatabase } from '../../../databases/sqlite/callers.js'
import {
  type ConnectionOptions,
  closed,
  type Database,
  openConnection,
  patiently,
  storeError,
} from '../../../databases/sqlite/connection.js'
import { compileOptions, type SqliteOptions } from '../../../databases/sqlite/options.js'
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
import { type Engine, makeEngine, makeVerbs, type Verbs } from './engine.js'
import { migrations } from './sql.generated.js'

const plan = { table: 'millrace_events_schema', migrations }

export function sqliteLog(options: SqliteOptions): SqliteLog {
  return new SqliteLog(options)
}

/** Events in one file, shared by any number of processes of one machine. It may hold jobs and the caller's own tables too. */
export class SqliteLog implements EventLog {
  readonly capabilities: LogCapabilities = {
    engine: 'sqlite',
    durable: true,
    shared: true,
    synchronous: true,
  }
  readonly #options: ConnectionOptions
  readonly #clock: Clock
  #engine: Engine | undefined
  readonly #opening = new Opening(() => this.#connect())
  /** Verbs over connections of the caller. */
  readonly #foreign = new WeakMap<Database, Verbs>()

  constructor(options: SqliteOptions) {
    const { clock, ...connection } = compileOptions(options)
    this.#clock = clock
    this.#options = connection
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async #connect(): Promise<void> {
    this.#engine = makeEngine(await openConnection(this.#options, plan), this.#clock, this.#options)
  }

  async close(): Promise<void> {
    await this.#opening.over()
    const engine = this.#engine
    this.#engine = undefined
    this.#opening.forget()
    engine?.wakeUps.stop()
    await engine?.transactions.close()
    await engine?.connection.close()
  }

  append(appends: readonly Append[]): Promise<AppendResult[]>
  append(appends: readonly Append[], tx: unknown): AppendResult[]
  append(appends: readonly Append[], tx?: unknown): AppendResult[] | Promise<AppendResult[]> {
    if (tx !== undefined) return this.#within(tx, ({ append }) => append(appends))
    return this.#write(({ append, wakeUps }) => {
      const results = append(appends)
      wakeUps.appended(results)
      return results
    })
  }

  stream(query: StreamQuery): Promise<StreamPage> {
    return this.#read((engine) => engine.stream(query))
  }

  all(query: AllQuery): Promise<AllPage> {
    return this.#read((engine) => engine.all(query))
  }

  end(): Promise<number> {
    return this.#read((engine) => engine.end())
  }

  async begin(): Promise<LogTransaction> {
    const { transactions, wakeUps } = this.#open()
    const transaction = await transactions.begin()
    return {
      tx: transaction.desk.db,
      async commit() {
        transaction.commit()
        if (transaction.desk.takeAppended()) wakeUps.tell()
      },
      async rollback() {
        transaction.rollback()
      },
    }
  }

  snapshot(stream: string, name: string): Promise<SnapshotRecord | undefined> {
    return this.#read((engine) => engine.snapshots.get(stream, name))
  }

  keepSnapshot(snapshot: SnapshotRecord): Promise<void> {
    return this.#write((engine) => engine.snapshots.keep(snapshot))
  }

  declare(projection: NewProjection, tx?: unknown): Promise<DeclaredProjection> {
    return this.#change(tx, ({ projections }) => projections.declare(projection))
  }

  forget(name: string, tx?: unknown): Promise<void> {
    return this.#change(tx, ({ projections }) => projections.forget(name))
  }

  projections(): Promise<ProjectionRecord[]> {
    return this.#read((engine) => engine.projections.list())
  }

  /** Looking takes no lock: who waits for another's lease keeps nobody from writing. */
  async hold(request: HoldRequest): Promise<Held | undefined> {
    if (!(await this.#read((engine) => engine.projections.couldHold(request)))) return undefined
    return this.#write((engine) => engine.projections.hold(request))
  }

  advance(request: AdvanceRequest, tx?: unknown): Promise<'advanced' | 'lost'> {
    return this.#change(tx, ({ projections }) => projections.advance(request))
  }

  rebuild(change: RebuildChange, tx?: unknown): Promise<ProjectionRecord> {
    return this.#change(tx, ({ projections }) => projections.rebuild(change))
  }

  surplus(query: SurplusQuery): Promise<Surplus> {
    return this.#read((engine) => engine.retention.surplus(query))
  }

  remove(positions: readonly number[]): Promise<void> {
    return this.#write((engine) => engine.retention.remove(positions))
  }

  erase(stream: string, limit: number): Promise<boolean> {
    return this.#write((engine) => engine.retention.erase(stream, limit))
  }

  subscribe(listener: () => void): () => void {
    return this.#open().wakeUps.subscribe(listener)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw closed()
    return this.#engine
  }

  /** A file that another process is recovering at this moment is waited for. */
  #read<T>(work: (engine: Engine) => T): Promise<T> {
    return patiently(this.#options.busyTimeout, () => work(this.#open()))
  }

  #write<T>(work: (engine: Engine) => T): Promise<T> {
    const engine = this.#engine
    if (engine === undefined) return Promise.reject(closed())
    return engine.connection.write(() => work(engine))
  }

  #change<T>(tx: unknown, work: (verbs: Verbs) => T): Promise<T> {
    return tx === undefined ? this.#write(work) : Promise.resolve(this.#within(tx, work))
  }

  /** The caller commits; other connections notice by themselves. */
  #within<T>(tx: unknown, work: (verbs: Verbs) => T): T {
    const { transactions } = this.#open()
    const db = callersDatabase(tx, this.#options.file, 'the events are')
    try {
      const verbs = transactions.deskOf(db) ?? this.#verbsOver(db)
      return atomically(db, () => work(verbs))
    } catch (error) {
      throw storeError(error)
    }
  }

  #verbsOver(db: Database): Verbs {
    let verbs = this.#foreign.get(db)
    if (verbs === undefined) {
      verbs = makeVerbs(db, this.#clock)
      this.#foreign.set(db, verbs)
    }
    return verbs
  }
}
