import { MillraceError } from '../../core/errors.js'
import type { GuardRequest, GuardResult } from '../../core/guard.js'
import type { JobRecord, JobTrail, NewJob } from '../../core/job.js'
import { invalid } from '../../core/options.js'
import type { ScheduleChange, ScheduleResult } from '../../core/schedule.js'
import type { NewSignal } from '../../core/step.js'
import type {
  AcquireRequest,
  AcquireResult,
  Capabilities,
  Cause,
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
import { CommitWatch } from '../../databases/postgres/commit-watch.js'
import { type Connection, openConnection } from '../../databases/postgres/connection.js'
import { sqlState } from '../../databases/postgres/errors.js'
import {
  type CompiledOptions,
  compileOptions,
  type PostgresOptions,
  type Timeouts,
} from '../../databases/postgres/options.js'
import { Slots } from '../../databases/postgres/slots.js'
import { WakeUps } from '../../databases/postgres/wake-ups.js'
import { Opening } from '../../system/opening.js'
import { configure } from '../ledger/configure.js'
import { extend } from '../ledger/extend.js'
import { guard } from '../ledger/guard.js'
import { operate } from '../ledger/operate.js'
import { schedule } from '../ledger/schedule.js'
import { signal } from '../ledger/signal.js'
import { nothingSwept, sweep } from '../ledger/sweep.js'
import { DeskExchange } from '../page/desk-exchange.js'
import { DeskInsert } from '../page/desk-insert.js'
import type { DeskOptions, WorkAtDesk } from '../page/desk-options.js'
import { Subscribers } from '../page/subscribers.js'
import type { PagedTables } from '../page/tables.js'
import { AtDesk } from './at-desk.js'
import { Callers } from './callers.js'
import { both, type CommitNews } from './commit-news.js'
import { arrivalsAtOnce, Desk } from './desk.js'
import { endWords } from './ends.js'
import { Exchanger } from './exchange.js'
import { FastPath } from './fast-path.js'
import { HandOver } from './hand-over.js'
import { HandlerTransaction } from './handler-transaction.js'
import { Inserter } from './insert.js'
import { Joining } from './joining.js'
import { planOf } from './migrate.js'
import { Names } from './names.js'
import { deskNeeds } from './needs.js'
import { News, signalsOf } from './news.js'
import { Prompt } from './prompt.js'
import { Reader } from './read.js'
import { Upkeep } from './upkeep.js'

export type { PostgresOptions } from '../../databases/postgres/options.js'

/** Said by the server of an id that exists. */
const uniqueViolation = '23505'

/** Of what is not as it was taken to be, and of jobs that are too large to be told as one text. */
const notByCount: ReadonlySet<string> = new Set(['MR001', '54000'])

export function postgresStore(options: PostgresOptions): PostgresStore {
  return new PostgresStore(options)
}

interface Engine {
  readonly connection: Connection
  readonly fastPath: FastPath
  readonly desk: Desk
  readonly atDesk: AtDesk
  readonly deskInsert: DeskInsert
  readonly deskExchange: DeskExchange
  readonly reader: Reader
  readonly callers: Callers
  readonly upkeep: Upkeep
  readonly subscribers: Subscribers
  readonly wakeUps: WakeUps
  readonly news: News
  readonly slots: Slots
  readonly commits: CommitWatch<CommitNews>
}

/** Jobs in a PostgreSQL database, beside the caller's own data. */
export class PostgresStore implements Store {
  readonly capabilities: Capabilities = {
    engine: 'postgres',
    durable: true,
    shared: true,
    remote: true,
    transactions: true,
  }
  readonly #options: CompiledOptions
  #engine: Engine | undefined
  readonly #transactions = new Map<object, HandlerTransaction>()
  readonly #opening = new Opening(() => this.#connect())

  constructor(options: PostgresOptions) {
    this.#options = compileOptions(options, 'millrace')
    if (connections(this.#options) < 2)
      throw invalid(
        'poolSize',
        connections(this.#options),
        'at least 2: a handler may need one for itself',
        2,
      )
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async #connect(): Promise<void> {
    const { schema, clock, patience } = this.#options
    const connection = await openConnection(this.#options, planOf(schema))
    const subscribers = new Subscribers()
    const wakeUps = new WakeUps(connection, this.#options, (signal) => subscribers.tell(signal))
    const names = new Names(connection, schema)
    const now = () => clock?.now() ?? null
    const inserter = new Inserter(names, schema, now)
    const exchanger = new Exchanger(connection, names, schema, now)
    const handOver = new HandOver(connection, names, schema, now)
    const prompt = new Prompt({ connection, inserter, exchanger, handOver, subscribers, wakeUps })
    const joining = new Joining(connection, names, schema, now)
    const fastPath = new FastPath({ connection, names, inserter, exchanger, joining, prompt })
    const news = new News(subscribers, wakeUps, exchanger)
    const desk = new Desk(schema, clock)
    const atDesk = new AtDesk(connection, desk, names, news)
    const work: WorkAtDesk = (verb, options, after) => atDesk.work(verb, options, after)
    const later = (tx: unknown, xid: string, told: CommitNews) => this.#later(tx, xid, told)
    this.#engine = {
      connection,
      fastPath,
      desk,
      atDesk,
      deskInsert: new DeskInsert(work, (error) => sqlState(error) === uniqueViolation),
      deskExchange: new DeskExchange({
        work,
        ends: endWords,
        needs: deskNeeds,
        isMore: () => false,
        isNotByCount: (error) => notByCount.has(sqlState(error) ?? ''),
      }),
      reader: new Reader(connection, atDesk, desk, schema, now),
      callers: new Callers({ inserter, names, fastPath, atDesk, later }),
      upkeep: new Upkeep(connection, schema, now),
      subscribers,
      wakeUps,
      news,
      // One connection is left for all the rest.
      slots: new Slots(connections(this.#options) - 1, patience),
      commits: new CommitWatch(connection, both, (told) => void this.#committed(told).catch(() => {})),
    }
    await wakeUps.start()
  }

  async close(): Promise<void> {
    const engine = this.#engine
    this.#engine = undefined
    engine?.commits.stop()
    await Promise.all([...this.#transactions.values()].map((transaction) => transaction.rollback()))
    await engine?.wakeUps.stop()
    await engine?.connection.close()
  }

  async insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    const { callers, fastPath, deskInsert } = this.#open()
    if (tx !== undefined) return callers.insert(tx, jobs)
    if (jobs.length === 0) return []
    const sent = await fastPath.insert(jobs, (request) => this.exchange(request))
    if (sent === undefined) return deskInsert.insert(jobs)
    for (const signal of signalsOf(sent)) this.#tell(signal, sent.isTold)
    return sent.results
  }

  /** A handler's transaction commits here, and at the desk, which admits what has arrived; others have to be watched. */
  #later(tx: unknown, xid: string, news: CommitNews): void {
    const own = this.#transactions.get(tx as object)
    if (own === undefined) this.#engine?.commits.watch(xid, news)
    else own.news.push(...signalsOf(news))
  }

  /** The desk tells what became of those that it admits. */
  async #committed(news: CommitNews): Promise<void> {
    for (const signal of signalsOf(news)) this.#tell(signal)
    for (let left = news.arrivals; left > 0; left -= arrivalsAtOnce) await this.#work(() => {})
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const { fastPath, deskExchange } = this.#open()
    const result = await fastPath.exchange(request)
    if (result === 'desk') return deskExchange.exchange(request)
    return result === 'whole' ? deskExchange.asAWhole(request) : this.#exchanged(request, result)
  }

  #exchanged({ settlements }: ExchangeRequest, result: ExchangeResult): ExchangeResult {
    if (settlements.length > 0) this.#tell({ type: 'settled', settlements })
    if (result.claimed.length > 0) this.#tell({ type: 'claimed', jobs: result.claimed })
    return result
  }

  extend(request: ExtendRequest): Promise<ExtendResult> {
    const needs = deskNeeds(request.worker, request.held)
    return this.#work(
      (tables) => {
        const result = extend(tables, request)
        if (request.held.length > 0) tables.signals.reported(request.held)
        return result
      },
      { needs },
    )
  }

  async sweep(request: SweepRequest): Promise<SweepReport> {
    const { upkeep } = this.#open()
    if (request.every !== undefined && !(await upkeep.isTimeToSweep(request.every))) return nothingSwept
    const pruned = await upkeep.sweep(request)
    return this.#work((tables) => sweep(tables, request, pruned), { like: 'sweep' })
  }

  operate(selector: Selector, command: Command): Promise<OperateReport> {
    return this.#work((tables) => operate(tables, selector, command))
  }

  configure(setting: Setting): Promise<void> {
    return this.#work((tables, now) => configure(tables, setting, now))
  }

  acquire(request: AcquireRequest): Promise<AcquireResult> {
    return this.#work((tables, now) => tables.traffic.acquire(request, now))
  }

  schedule(changes: readonly ScheduleChange[]): Promise<ScheduleResult[]> {
    return this.#work((tables, now) => schedule(tables, changes, now))
  }

  signal(signals: readonly NewSignal[]): Promise<SignalResult[]> {
    return this.#work((tables, now) => signal(tables, signals, now))
  }

  guard(request: GuardRequest): Promise<GuardResult> {
    return this.#work((tables, now) => guard(tables, request, now))
  }

  async begin(): Promise<StoreTransaction> {
    const { connection, desk, slots } = this.#open()
    const giveBack = await slots.take()
    const begun = await connection.begin({ timeouts: handlers }).catch((error: unknown) => {
      giveBack()
      throw error
    })
    const transaction = new HandlerTransaction(begun, desk, {
      check: () => void this.#open(),
      timeouts: this.#options.timeouts,
      lock: handlers.lock,
      committed: (signal) => this.#tell(signal),
      over: ({ tx }) => {
        this.#transactions.delete(tx as object)
        giveBack()
      },
    })
    this.#transactions.set(transaction.tx as object, transaction)
    return transaction
  }

  async get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    return this.#open().reader.get(ids)
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    return this.#open().reader.trail(id)
  }

  async list(query: JobQuery): Promise<JobPage> {
    return this.#open().reader.list(query)
  }

  async counts(): Promise<Counts> {
    return this.#open().reader.counts()
  }

  async causes(): Promise<Cause[]> {
    return this.#open().reader.causes()
  }

  async gates(query: GateQuery): Promise<GatePage> {
    return this.#open().reader.gates(query)
  }

  async schedules(query: ScheduleQuery): Promise<SchedulePage> {
    return this.#open().reader.schedules(query)
  }

  async links(query: LinkQuery): Promise<LinkPage> {
    return this.#open().reader.links(query)
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#open().subscribers.subscribe(listener)
  }

  async #work<T>(verb: (tables: PagedTables, now: number) => T, options?: DeskOptions): Promise<T> {
    return this.#open().atDesk.work(verb, options)
  }

  #tell(signal: Signal, isTold = false): void {
    this.#engine?.news.tell(signal, isTold)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw new MillraceError('CLOSED', 'the store is closed')
    return this.#engine
  }
}

function connections({ pool, poolSize }: CompiledOptions): number {
  return pool === undefined ? poolSize : ((pool.options as { max?: number } | undefined)?.max ?? 10)
}

/** A handler takes its time; the worker ends one that takes too much. */
const handlers: Timeouts = {
  statement: 60_000,
  lock: 10_000,
  idleInTransaction: 60_000,
  answer: 62_000,
  connect: 5_000,
}
