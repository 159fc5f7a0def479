import type { Clock } from '../../core/clock.js'
import type { GuardRequest, GuardResult } from '../../core/guard.js'
import type { JobRecord, JobTrail, NewJob } from '../../core/job.js'
import type { ScheduleChange, ScheduleResult } from '../../core/schedule.js'
import type { NewSignal } from '../../core/step.js'
import type {
  AcquireRequest,
  AcquireResult,
  Capabilities,
  Cause,
  ClaimRequest,
  Command,
  Counts,
  ExchangeRequest,
  ExchangeResult,
  ExtendRequest,
  ExtendResult,
  GatePage,
  GateQuery,
  InsertResult,
  JobPage,
  JobQuery,
  LinkPage,
  LinkQuery,
  OperateReport,
  SchedulePage,
  ScheduleQuery,
  Selector,
  Setting,
  Signal,
  SignalResult,
  Store,
  StoreTransaction,
  SweepReport,
  SweepRequest,
} from '../../core/store.js'
import { allTaken } from '../../core/traffic/admit.js'
import { atomically, callersDatabase } from '../../databases/sqlite/callers.js'
import {
  type Connection,
  type ConnectionOptions,
  closed,
  type Database,
  openConnection,
  patiently,
  storeError,
} from '../../databases/sqlite/connection.js'
import { compileOptions, type SqliteOptions } from '../../databases/sqlite/options.js'
import { Opening } from '../../system/opening.js'
import { makeCancel } from './cancel.js'
import { makeClaim } from './claim.js'
import { makeConfigure } from './configure.js'
import { makeDoom, makeDoomMark } from './doom.js'
import { makeExtend, makeWriteHeld, makeWriteReport } from './extend.js'
import { makeGuard } from './guard.js'
import { makeInserting } from './inserting.js'
import { makeLinks } from './links.js'
import { makeOperate } from './operate.js'
import { makeRead, makeReadGates } from './read.js'
import { makeReadSchedules, makeSchedule } from './schedule.js'
import { makeRemove, makeSettle } from './settle.js'
import { makeSignal } from './signal.js'
import { migrations } from './sql.generated.js'
import { Signals } from './subscribe.js'
import { makeSweep } from './sweep.js'
import { HandlerTransactions } from './transaction.js'

export type { SqliteOptions } from '../../databases/sqlite/options.js'

const plan = { table: 'millrace_schema', migrations }

export function sqliteStore(options: SqliteOptions): SqliteStore {
  return new SqliteStore(options)
}

/** Jobs in one file, shared by any number of processes of one machine. */
export class SqliteStore implements Store {
  readonly capabilities: Capabilities = { engine: 'sqlite', durable: true, shared: true, transactions: true }
  readonly #options: ConnectionOptions
  readonly #clock: Clock
  #engine: Engine | undefined
  readonly #opening = new Opening(() => this.#connect())
  /** Inserts over connections of the caller. */
  readonly #foreign = new WeakMap<Database, (jobs: readonly NewJob[]) => InsertResult[]>()

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
    const engine = this.#engine
    this.#engine = undefined
    engine?.signals.stop()
    await engine?.transactions.close()
    await engine?.connection.close()
  }

  insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    if (tx !== undefined) return Promise.resolve(this.#insertInto(tx, jobs))
    return this.#write((engine) => engine.insert(jobs))
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const { settlements, claim } = request
    if (settlements.length === 0 && claim !== undefined) {
      // Looking takes no lock: an idle worker keeps nobody from writing.
      const now = this.#clock.now()
      if (this.#engine?.claim.couldFind(request.worker, claim, now) === false)
        return { settled: [], claimed: [], opens: this.#engine.opens(claim, now) }
    }
    return this.#write((engine) => engine.exchange(request))
  }

  extend(request: ExtendRequest): Promise<ExtendResult> {
    return this.#write((engine) => engine.renew(request))
  }

  async sweep(request: SweepRequest): Promise<SweepReport> {
    return this.#read((engine) => engine.sweep(request))
  }

  operate(selector: Selector, command: Command): Promise<OperateReport> {
    return this.#write((engine) => engine.operate(selector, command))
  }

  configure(setting: Setting): Promise<void> {
    return this.#write((engine) => engine.configure(setting))
  }

  acquire(request: AcquireRequest): Promise<AcquireResult> {
    return this.#write((engine) => engine.acquire(request))
  }

  async get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    return this.#read((engine) => engine.read.get(ids))
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    return this.#read((engine) => engine.read.trail(id))
  }

  async list(query: JobQuery): Promise<JobPage> {
    return this.#read((engine) => engine.read.list(query))
  }

  async counts(): Promise<Counts> {
    return this.#read((engine) => engine.read.counts())
  }

  async causes(): Promise<Cause[]> {
    return this.#read((engine) => engine.read.causes())
  }

  async gates(query: GateQuery): Promise<GatePage> {
    return this.#read((engine) => engine.gates(query))
  }

  schedule(changes: readonly ScheduleChange[]): Promise<ScheduleResult[]> {
    return this.#write((engine) => engine.schedule(changes))
  }

  async schedules(query: ScheduleQuery): Promise<SchedulePage> {
    return this.#read((engine) => engine.schedules.page(query))
  }

  signal(signals: readonly NewSignal[]): Promise<SignalResult[]> {
    return this.#write((engine) => engine.signal(signals))
  }

  guard(request: GuardRequest): Promise<GuardResult> {
    return this.#write((engine) => engine.guard(request))
  }

  async begin(): Promise<StoreTransaction> {
    return this.#open().transactions.begin()
  }

  async links(query: LinkQuery): Promise<LinkPage> {
    return this.#read((engine) => engine.links(query))
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#open().signals.subscribe(listener)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw closed()
    return this.#engine
  }

  /** A file that another process is recovering at this moment is waited for. */
  #read<T>(work: (engine: Engine) => T | Promise<T>): Promise<T> {
    return patiently(this.#options.busyTimeout, async () => work(this.#open()))
  }

  #write<T>(work: (engine: Engine) => T): Promise<T> {
    const engine = this.#engine
    if (engine === undefined) return Promise.reject(closed())
    return engine.connection.write(() => work(engine))
  }

  /** The caller commits: no group, no signal; other connections notice by themselves. */
  #insertInto(tx: unknown, jobs: readonly NewJob[]): InsertResult[] {
    const engine = this.#open()
    const db = callersDatabase(tx, this.#options.file, 'the jobs are')
    let insert = engine.transactions.insertInto(db) ?? this.#foreign.get(db)
    if (insert === undefined) {
      insert = makeInserting(db, this.#clock, deaf).insertAtOnce
      this.#foreign.set(db, insert)
    }
    try {
      return atomically(db, () => allTaken(jobs, insert(jobs)))
    } catch (error) {
      throw storeError(error)
    }
  }
}

type Engine = ReturnType<typeof makeEngine>

/** The verbs over one connection, each prepared once. */
function makeEngine(connection: Connection, clock: Clock, options: ConnectionOptions) {
  const signals = new Signals(connection)
  const inserting = makeInserting(connection.db, clock, signals)
  const { tables, traffic, places, pending, steps, waiting, families, insert } = inserting
  const remove = makeRemove(tables)
  const writeReport = makeWriteReport(tables, steps)
  const signal = makeSignal(tables, waiting)
  const read = makeRead(tables, families, steps)
  const schedules = makeReadSchedules(tables)
  const doomed = makeDoomMark(tables)
  const cancel = makeCancel(tables, { pending, waiting, families, doom: doomed, signals, remove })
  const doom = makeDoom(tables, read.row, cancel)
  const settle = makeSettle(tables, {
    insert,
    pending,
    traffic,
    places,
    families,
    doom: doomed,
    remove,
    writeReport,
    waiting,
    signals,
  })
  const claim = makeClaim(tables, traffic, places, families)
  const extend = makeExtend(tables, makeWriteHeld(tables, writeReport, insert), families)

  connection.beforeCommit = () => {
    places.write()
    tables.write()
  }
  connection.onRollback = () => {
    places.forget()
    tables.forget()
    signals.forget()
  }

  return {
    connection,
    signals,
    insert,
    claim,
    exchange,
    renew,
    opens,
    schedule: makeSchedule(tables, insert, signals),
    schedules,
    signal,
    sweep: makeSweep(connection, tables, {
      pending,
      traffic,
      places,
      families,
      doom,
      remove,
      waiting,
      signal,
      readSchedules: schedules,
    }),
    operate: makeOperate(tables, { read, pending, families, doom, cancel, remove, steps, waiting, signals }),
    links: makeLinks(tables),
    configure: makeConfigure(tables, traffic, signals),
    acquire: (request: AcquireRequest) => traffic.acquire(request, clock.now()),
    guard: makeGuard(tables, signals),
    transactions: new HandlerTransactions(
      options,
      clock,
      (signal) => signals.tell(signal),
      () => connection.waitedFor(),
    ),
    gates: makeReadGates(places, clock),
    read,
  }

  function exchange({ worker, settlements, claim: wanted, rescue }: ExchangeRequest): ExchangeResult {
    // One look at the clock: what starts here does so when what made room for it has ended, and no sooner.
    const now = clock.now()
    const refused = rescue === true && tables.workerIsAlive(worker, now)
    const settled = refused ? settlements.map(() => 'lost' as const) : settle(worker, settlements, now)
    if (settlements.length > 0) signals.settled(settlements)
    if (wanted === undefined) return { settled, claimed: [], opens: undefined }
    const { jobs, more } = claim.take(worker, wanted, now)
    if (jobs.length > 0) signals.claimed(jobs)
    return { settled, claimed: jobs, opens: more ? 0 : opens(wanted, now) }
  }

  function opens(wanted: ClaimRequest, now: number): number | undefined {
    const at = claim.opensAt(wanted, now)
    return at === undefined ? undefined : Math.max(0, at - now)
  }

  function renew(request: ExtendRequest): ExtendResult {
    if (request.held.length > 0) signals.reported(request.held)
    return extend(request)
  }
}

const deaf = { ready() {}, due() {}, breaker() {}, quarantine() {} }
