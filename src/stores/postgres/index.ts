import { bounds } from '../../core/bounds.js'
import { MillraceError } from '../../core/errors.js'
import type { GuardRequest, GuardResult } from '../../core/guard.js'
import { type JobRecord, type JobTrail, jobStates, type LogLine, type NewJob } from '../../core/job.js'
import { totalNames } from '../../core/lifecycle.js'
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
import { allTaken } from '../../core/traffic/admit.js'
import { gateRecord } from '../../core/traffic/gate.js'
import { configure } from '../ledger/configure.js'
import { exchange } from '../ledger/exchange.js'
import { extend } from '../ledger/extend.js'
import { guard } from '../ledger/guard.js'
import { insert, insertFromHandler } from '../ledger/insert.js'
import { links } from '../ledger/links.js'
import { operate } from '../ledger/operate.js'
import { toRecord } from '../ledger/record.js'
import { schedule } from '../ledger/schedule.js'
import { signal } from '../ledger/signal.js'
import { sweep } from '../ledger/sweep.js'
import { type CommitNews, CommitWatch } from './commit-watch.js'
import { type Connection, openConnection } from './connection.js'
import { arrivalsAtOnce, Desk, type DeskOptions } from './desk.js'
import { sqlState } from './errors.js'
import { Exchanger } from './exchange.js'
import { HandlerTransaction } from './handler-transaction.js'
import { Inserter, isPlain } from './insert.js'
import { Names } from './names.js'
import { deskNeeds, insertNeeds } from './needs.js'
import { type CompiledOptions, compileOptions, type PostgresOptions, type Timeouts } from './options.js'
import { readSchedule } from './page/codecs.js'
import { Needs } from './page/needs.js'
import type { GateRow } from './page/places.js'
import { readStep } from './page/steps.js'
import type { PagedTables } from './page/tables.js'
import { Prompt, type Sent } from './prompt.js'
import { Slots } from './slots.js'
import { read } from './sql.generated.js'
import { Statements } from './statements.js'
import { Subscribers } from './subscribe.js'
import { queryOf } from './tx/query-of.js'
import { Upkeep } from './upkeep.js'
import { WakeUps } from './wake-ups.js'

export type { PostgresOptions } from './options.js'

export function postgresStore(options: PostgresOptions): PostgresStore {
  return new PostgresStore(options)
}

/** What the functions of the fast path say when it is not for them: not plain, or in other hands. */
const forDesk: ReadonlySet<string> = new Set(['MR001', '55P03', '40P01', '54000'])

/** The same for jobs in a script with others; also when an id exists. */
const noPrompt: ReadonlySet<string> = new Set([...forDesk, '23505'])

interface Engine {
  readonly connection: Connection
  readonly names: Names
  readonly inserter: Inserter
  readonly exchanger: Exchanger
  readonly upkeep: Upkeep
  readonly prompt: Prompt
  readonly desk: Desk
  readonly read: Statements
  readonly subscribers: Subscribers
  readonly wakeUps: WakeUps
  readonly slots: Slots
  readonly commits: CommitWatch
}

interface Staged {
  /** The transaction's. */
  readonly xid: string
  readonly calls: readonly (readonly NewJob[])[]
}

/** Jobs in a PostgreSQL database, beside the caller's own data. */
export class PostgresStore implements Store {
  readonly capabilities: Capabilities = {
    engine: 'postgres',
    durable: true,
    shared: true,
    transactions: true,
  }
  readonly #options: CompiledOptions
  #engine: Engine | undefined
  readonly #transactions = new Map<object, HandlerTransaction>()
  /** What the present transaction of a caller has brought to be admitted. */
  readonly #staged = new WeakMap<object, Staged>()
  #bounces = 0
  /** Exchanges to come that go to the desk at once. */
  #atDesk = 0
  #opening: Promise<void> | undefined

  constructor(options: PostgresOptions) {
    this.#options = compileOptions(options)
    if (connections(this.#options) < 2)
      throw invalid(
        'poolSize',
        connections(this.#options),
        'at least 2: a handler may need one for itself',
        2,
      )
  }

  open(): Promise<void> {
    this.#opening ??= this.#connect().catch((error: unknown) => {
      this.#opening = undefined // the next call may find the server
      throw error
    })
    return this.#opening
  }

  async #connect(): Promise<void> {
    const { schema, clock, patience } = this.#options
    const connection = await openConnection(this.#options)
    const subscribers = new Subscribers()
    const wakeUps = new WakeUps(connection, this.#options, (signal) => subscribers.tell(signal))
    const desk = new Desk(schema, clock)
    const statements = new Statements(read, schema)
    const names = new Names(connection, schema)
    const now = () => clock?.now() ?? null
    const inserter = new Inserter(names, schema, now)
    const exchanger = new Exchanger(connection, names, schema, now)
    const prompt = new Prompt({ connection, inserter, exchanger, subscribers, wakeUps })
    this.#engine = {
      connection,
      names,
      inserter,
      exchanger,
      upkeep: new Upkeep(connection, schema, now),
      prompt,
      desk,
      read: statements,
      subscribers,
      wakeUps,
      // One connection is left for all the rest.
      slots: new Slots(connections(this.#options) - 1, patience),
      commits: new CommitWatch(connection, (news) => void this.#committed(news).catch(() => {})),
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
    if (tx !== undefined) return this.#insertWithin(tx, jobs)
    const engine = this.#open()
    if (jobs.length === 0) return []
    if (jobs.every((job) => isPlain(job) && !engine.names.limited.has(job.queue))) {
      const inserted = await this.#insertPlain(engine, jobs)
      if (inserted !== undefined) {
        for (const signal of signalsOf(inserted)) this.#tell(signal, inserted.isTold)
        return inserted.results
      }
    }
    const needs = insertNeeds(jobs)
    return this.#work((tables, now) => insert(tables, jobs, now), { needs, like: 'insert' })
  }

  async #insertPlain(engine: Engine, jobs: readonly NewJob[]): Promise<Sent | undefined> {
    const { prompt, inserter, connection } = engine
    if (prompt.takes(jobs)) {
      const sent = await this.#quickly(
        () => prompt.insert(jobs, (request) => this.exchange(request)),
        noPrompt,
      )
      if (sent !== undefined) return sent
    }
    const inserted = await this.#quickly(() => inserter.insert(connection, jobs))
    return inserted && { ...inserted, isTold: false }
  }

  /** The caller commits: what there is to tell waits until then. */
  async #insertWithin(tx: unknown, jobs: readonly NewJob[]): Promise<InsertResult[]> {
    const { inserter, names } = this.#open()
    const query = queryOf(tx)
    if (jobs.length === 0) return []
    const isPlainAll = jobs.every((job) => isPlain(job) && !names.limited.has(job.queue))
    const tried = isPlainAll ? await inserter.insertWithin(query, jobs) : undefined
    if (tried?.inserted !== undefined) {
      this.#later(tx, tried.xid, { ...tried.inserted, arrivals: 0 })
      return tried.inserted.results
    }
    const xid = tried?.xid ?? (await inserter.transactionId(query))
    const before = this.#staged.get(tx as object)
    // A client may have been through other transactions.
    const staged = before?.xid === xid ? before.calls : []
    const { results, now } = await this.#foresee(staged, jobs)
    allTaken(jobs, results)
    // By then some time will have passed.
    const timed = jobs.map((job) => (job.delay > 0 ? { ...job, runAt: job.runAt ?? now + job.delay } : job))
    await inserter.stage(query, timed)
    this.#staged.set(tx as object, { xid, calls: [...staged, timed] })
    this.#later(tx, xid, { ready: new Set(), soonest: undefined, arrivals: 1 })
    return results
  }

  /** What will become of jobs, after others of the same transaction, as things stand. */
  async #foresee(
    staged: readonly (readonly NewJob[])[],
    jobs: readonly NewJob[],
  ): Promise<{ results: InsertResult[]; now: number }> {
    for (const job of jobs) await this.#open().names.kind(job)
    const needs = new Needs()
    for (const { id } of [...staged.flat(), ...jobs]) needs.key('job', id)
    return this.#look(
      (tables, now) => {
        tables.each(staged, (earlier) => insertFromHandler(tables, earlier, undefined, now))
        return { results: insert(tables, jobs, now), now }
      },
      { needs },
    )
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
    const { exchanger, prompt } = this.#open()
    const boarded = prompt.board(request)
    if (boarded !== undefined) return this.#exchanged(request, await boarded)
    if (exchanger.takes(request) && !this.#keepsToDesk()) {
      const result = await this.#quickly(() => exchanger.exchange(request))
      this.#bounced(result === undefined)
      if (result !== undefined) return this.#exchanged(request, result)
    }
    const needs = deskNeeds(request.worker, request.settlements)
    const count = request.claim === undefined ? 1 : room(request.claim)
    return this.#work((tables, now) => exchange(tables, request, now), {
      needs,
      count,
      renewsByTaking: true,
      like: request.claim === undefined ? 'settle' : `claim ${request.worker}`,
    })
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

  get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    const needs = new Needs()
    for (const id of ids) needs.key('job', id)
    return this.#look((tables) => records(tables, ids), { needs })
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    const { read } = this.#open()
    const [jobs = [], logs = [], steps = []] = await this.#ask(
      ['trail', 'logs', 'steps'].map((name) => read.bound(name, [id])),
    )
    const row = jobs[0] as { rest: string | null } | undefined
    if (row === undefined) return undefined
    const { attempts = [] } = JSON.parse(row.rest ?? '{}') as Partial<JobTrail>
    return {
      attempts,
      logs: logs.map(({ line }: { line: string }) => JSON.parse(line) as LogLine),
      steps: steps.map(({ state }: { state: string }) => readStep(state)),
    }
  }

  list(query: JobQuery): Promise<JobPage> {
    return this.#look((tables) => {
      const { entries, cursor } = tables.select(query)
      return { jobs: entries.map((entry) => toRecord(tables, entry)), cursor }
    })
  }

  async counts(): Promise<Counts> {
    const { read } = this.#open()
    const [kinds = [], paused = []] = await this.#ask([read.bound('counts'), read.bound('paused')])
    return {
      kinds: kinds.map((row: Record<string, number> & { queue: string; name: string; lane: number }) => ({
        queue: row.queue,
        name: row.name,
        lane: row.lane,
        states: Object.fromEntries(jobStates.map((state) => [state, row[state] ?? 0])) as never,
        totals: Object.fromEntries(totalNames.map((total) => [total, row[`total_${total}`] ?? 0])) as never,
      })),
      paused: paused.map(({ name }: { name: string }) => name),
    }
  }

  async causes(): Promise<Cause[]> {
    const [rows = []] = await this.#ask([this.#open().read.bound('causes', [bounds.page])])
    return rows.map(({ first_at, last_at, ...row }: Cause & { first_at: number; last_at: number }) => ({
      ...row,
      firstAt: first_at,
      lastAt: last_at,
    }))
  }

  async gates({ of, owner, names, limit, cursor }: GateQuery): Promise<GatePage> {
    const values = [of, owner ?? null, names ?? null, Number(cursor ?? 0), limit + 1]
    const [rows = []] = (await this.#ask([
      this.#open().read.bound('gates', values),
    ])) as unknown as GateRow[][]
    const page = rows.slice(0, limit)
    const gates = await this.#look((tables, now) =>
      tables.books.ofRows(page).map((gate) => gateRecord(gate, now)),
    )
    return { gates, cursor: rows.length > limit ? String(page.at(-1)?.num) : undefined }
  }

  async schedules({ names, limit, cursor }: ScheduleQuery): Promise<SchedulePage> {
    const { read, desk } = this.#open()
    const values = [cursor ?? '', names ?? null, limit + 1]
    const [rows = [], time = []] = await this.#ask([read.bound('schedules', values), desk.timeQuery])
    const schedules = rows.slice(0, limit).map(({ state }: { state: string }) => readSchedule(state))
    const now = this.#options.clock?.now() ?? (time[0] as unknown as { now: number }).now
    return { schedules, cursor: rows.length > limit ? schedules.at(-1)?.name : undefined, now }
  }

  links(query: LinkQuery): Promise<LinkPage> {
    const needs = new Needs()
    for (const id of query.parents) needs.key('place', id)
    return this.#look((tables) => links((id) => tables.linksOf(id), query), { needs })
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#open().subscribers.subscribe(listener)
  }

  async #work<T>(verb: (tables: PagedTables, now: number) => T, options?: DeskOptions): Promise<T> {
    const { connection, desk, names } = this.#open()
    const { result, tables } = await connection.scripts((ask, begin) => desk.work(ask, begin, verb, options))
    for (const queue of tables.kinds.limitedQueues()) names.limited.add(queue)
    tables.signals.tell()
    for (const signal of tables.news) this.#tell(signal)
    return result
  }

  /** Tells this process, and others what they cannot see by themselves. */
  #tell(signal: Signal, isTold = false): void {
    const engine = this.#engine
    if (engine === undefined) return
    engine.subscribers.tell(signal)
    if (signal.type === 'ready') {
      engine.exchanger.ready(signal.queues)
      if (!isTold) engine.wakeUps.ready(signal.queues)
    } else if (signal.type === 'changed' || signal.type === 'cancel' || signal.type === 'due')
      engine.wakeUps.changed()
  }

  /** Undefined for what only the desk can do. */
  async #quickly<T>(work: () => Promise<T>, others = forDesk): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      if (others.has(sqlState(error) ?? '')) return undefined
      throw error
    }
  }

  /** Where the fast path fails again and again, it is tried more and more seldom. */
  #keepsToDesk(): boolean {
    if (this.#atDesk === 0) return false
    this.#atDesk--
    return true
  }

  #bounced(isBounced: boolean): void {
    this.#bounces = isBounced ? Math.min(64, Math.max(4, this.#bounces * 2)) : 0
    this.#atDesk = this.#bounces
  }

  async #look<T>(verb: (tables: PagedTables, now: number) => T, options?: DeskOptions): Promise<T> {
    const { connection, desk } = this.#open()
    const { result, hasArrivals } = await connection.scripts((ask) => desk.look(ask, verb, options))
    if (!hasArrivals) return result
    await this.#work(() => {})
    return (await connection.scripts((ask) => desk.look(ask, verb, options))).result
  }

  #ask(statements: readonly string[]): Promise<readonly (readonly never[])[]> {
    return this.#open().connection.scripts((ask) => ask(statements.join(';\n')))
  }

  #open(): Engine {
    if (this.#engine === undefined) throw new MillraceError('CLOSED', 'the store is closed')
    return this.#engine
  }
}

function signalsOf({ ready, soonest }: Pick<CommitNews, 'ready' | 'soonest'>): Signal[] {
  const signals: Signal[] = []
  if (ready.size > 0) signals.push({ type: 'ready', queues: ready })
  if (soonest !== undefined) signals.push({ type: 'due', delay: soonest })
  return signals
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

const nothingSwept: SweepReport = {
  promoted: 0,
  pruned: 0,
  orphans: [],
  schedules: [],
  nextDue: undefined,
  nextSlot: undefined,
  more: false,
}

function records(tables: PagedTables, ids: readonly string[]): (JobRecord | undefined)[] {
  const found: (JobRecord | undefined)[] = []
  tables.each(ids, (id) => {
    const entry = tables.jobs.get(id)
    found.push(entry === undefined ? undefined : toRecord(tables, entry))
  })
  return found
}

function room({ room: { shared, own } }: NonNullable<ExchangeRequest['claim']>): number {
  return own.reduce((sum, slots) => sum + slots, shared)
}
