import { MillraceError } from '../../core/errors.js'
import type { GuardRequest, GuardResult } from '../../core/guard.js'
import type { JobRecord, JobTrail, NewJob } from '../../core/job.js'
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
import { newToken } from '../../system/ids.js'
import { configure } from '../ledger/configure.js'
import { extend } from '../ledger/extend.js'
import { guard } from '../ledger/guard.js'
import { insert } from '../ledger/insert.js'
import { operate } from '../ledger/operate.js'
import { schedule } from '../ledger/schedule.js'
import { signal } from '../ledger/signal.js'
import { sweep } from '../ledger/sweep.js'
import { DeskExchange } from '../page/desk-exchange.js'
import { DeskInsert } from '../page/desk-insert.js'
import type { WorkAtDesk } from '../page/desk-options.js'
import { Subscribers } from '../page/subscribers.js'
import type { PagedTables } from '../page/tables.js'
import type { Verb } from '../page/trying.js'
import { AtDesk } from './at-desk.js'
import { type Connection, openConnection } from './connection.js'
import { Desk, type RedisDeskOptions } from './desk.js'
import { endWords } from './ends.js'
import { isRefusedWith } from './errors.js'
import { Exchanger } from './exchange.js'
import { FastPath } from './fast-path.js'
import { Gifts } from './gifts.js'
import { IdleLeases } from './idle-lease.js'
import { hasMarks, type Inserted, Inserter } from './insert.js'
import { deskNeeds } from './needs.js'
import type { CompiledOptions } from './options.js'
import { Prompt } from './prompt.js'
import { Quiet } from './quiet.js'
import { Reader } from './read.js'
import { scripts } from './scripts.js'
import { handleOf } from './ticket.js'
import { WakeUps } from './wake-ups.js'

interface Engine {
  readonly connection: Connection
  readonly fastPath: FastPath
  readonly prompt: Prompt
  readonly gifts: Gifts
  readonly atDesk: AtDesk
  readonly deskInsert: DeskInsert
  readonly deskExchange: DeskExchange
  readonly reader: Reader
  readonly subscribers: Subscribers
  readonly wakeUps: WakeUps | undefined
  readonly quiet: Quiet
  readonly idleLeases: IdleLeases
  tell(signal: Signal): void
}

/** A whole store in one shard, which is one slot of a cluster. */
export class ShardStore implements Store {
  readonly capabilities: Capabilities = {
    engine: 'redis',
    durable: true,
    shared: true,
    remote: true,
    pipelined: true,
    transactions: false,
  }
  readonly #number: number
  readonly #options: CompiledOptions
  #engine: Engine | undefined
  #opening: Promise<void> | undefined

  constructor(number: number, options: CompiledOptions) {
    this.#number = number
    this.#options = options
  }

  open(): Promise<void> {
    this.#opening ??= this.#connect().catch((error: unknown) => {
      this.#opening = undefined // the next call may find the server
      throw error
    })
    return this.#opening
  }

  async #connect(): Promise<void> {
    const { clock, listen, durability } = this.#options
    const connection = await openConnection(this.#options, this.#number)
    const subscribers = new Subscribers()
    const ear = newToken()
    const now = () => clock?.now() ?? ''
    // A clock of the caller's may leap: then everything is asked.
    const isHeard = () => clock === undefined && wakeUps?.listening === true
    const quiet = new Quiet(connection, isHeard)
    const idleLeases = new IdleLeases(connection, now, isHeard)
    const tell = (signal: Signal) => {
      if (signal.type !== 'claimed' && signal.type !== 'reported') quiet.wake()
      if (signal.type !== 'reported') idleLeases.wake()
      subscribers.tell(signal)
    }
    const gifts = new Gifts({ tell, exchange: (request) => this.exchange(request) })
    const receive = (message: string) => gifts.receive(message)
    const wakeUps = listen ? new WakeUps(connection, ear, tell, receive) : undefined
    const desk = new Desk(connection, ear, clock, this.#number === 0)
    const atDesk = new AtDesk(desk, tell)
    const work: WorkAtDesk = (verb, options, after) => atDesk.work(verb, options, after)
    const deskInsert = new DeskInsert(work, (error) => isRefusedWith(error, 'MRKNOWN'))
    const deskExchange = new DeskExchange({
      work,
      ends: endWords,
      needs: deskNeeds,
      isMore: hasMarks,
      isNotByCount: (error) => isRefusedWith(error, 'MRWHOLE'),
    })
    const inserter = new Inserter(connection, ear, now)
    const heardBy = () => (wakeUps?.listening ? ear : '')
    const exchanger = new Exchanger(connection, heardBy, now, durability)
    const { limited } = atDesk
    const prompt = new Prompt({ inserter, exchanger, limited, tell })
    const fastPath = new FastPath({ inserter, exchanger, prompt, limited })
    const reader = new Reader(desk)
    this.#engine = {
      connection,
      fastPath,
      prompt,
      gifts,
      atDesk,
      deskInsert,
      deskExchange,
      reader,
      subscribers,
      wakeUps,
      quiet,
      idleLeases,
      tell,
    }
    await wakeUps?.start()
  }

  async close(): Promise<void> {
    const engine = this.#engine
    await engine?.wakeUps?.stop()
    await engine?.gifts.close()
    this.#engine = undefined
    engine?.connection.close()
  }

  async insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    const { deskInsert } = this.#open()
    if (tx !== undefined) throw noTransactions()
    return (await this.#insert(jobs)) ?? deskInsert.insert(jobs)
  }

  /** Undefined where the desk is not to do it: nothing was written. */
  async insertIf(
    mayDo: (tables: PagedTables) => boolean,
    jobs: readonly NewJob[],
  ): Promise<InsertResult[] | undefined> {
    return (await this.#insert(jobs)) ?? this.#insertAtDesk(mayDo, jobs)
  }

  async #insertAtDesk(
    mayDo: (tables: PagedTables) => boolean,
    jobs: readonly NewJob[],
  ): Promise<InsertResult[] | undefined> {
    const stubs = await this.ask<readonly number[]>('stubs', ...jobs.map(({ id }) => handleOf(id)))
    const rest = jobs.filter((_, i) => stubs[i] === 0)
    const results = await this.work((tables, now) => (mayDo(tables) ? insert(tables, rest, now) : undefined))
    const inserted = results?.values()
    return inserted && stubs.map((stub) => (stub === 1 ? moved : (inserted.next().value as InsertResult)))
  }

  /** Undefined for the desk. */
  async #insert(jobs: readonly NewJob[]): Promise<InsertResult[] | undefined> {
    if (jobs.length === 0) return []
    const inserted = await this.#open().fastPath.insert(jobs, (request) => this.#ask(request))
    if (inserted === undefined) return undefined
    this.#tellOf(inserted)
    if (typeof inserted.given !== 'string') void this.#retract(inserted.given, jobs)
    return this.#withStates(jobs, inserted.results)
  }

  #tellOf({ ready, soonest }: Inserted): void {
    if (ready.size > 0) this.#tell({ type: 'ready', queues: ready })
    if (soonest !== undefined) this.#tell({ type: 'due', delay: soonest })
  }

  /** If the process that jobs were given to does not hear of it. If we fail too, the lease gives them back. */
  async #retract(given: readonly [ear: string, claim: string], jobs: readonly NewJob[]): Promise<void> {
    const connection = this.#engine?.connection
    const retracted = await connection?.run(scripts.retract, given, { durable: false }).catch(() => 0)
    if (retracted === 0 || connection === undefined) return
    this.#tell({ type: 'ready', queues: new Set(jobs.map(({ queue }) => queue)) })
  }

  /** Of jobs that stood already it is asked in which state. */
  async #withStates(jobs: readonly NewJob[], results: InsertResult[]): Promise<InsertResult[]> {
    const ids = jobs.filter((_, i) => results[i]?.status === 'duplicate').map(({ id }) => id)
    if (ids.length === 0) return results
    const records = await this.#open().reader.get(ids)
    const states = new Map(ids.map((id, i) => [id, records[i]?.state]))
    return results.map((result, i) =>
      result.status === 'duplicate' ? { ...result, state: states.get((jobs[i] as NewJob).id) } : result,
    )
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const { prompt, gifts } = this.#open()
    if (!gifts.has(request)) return prompt.board(request) ?? this.#exchange(request)
    const { settlements, worker } = request
    const others = settlements.length > 0 && (await this.#exchange({ ...request, claim: undefined }))
    const claimed = gifts.take(worker)
    if (claimed.length > 0) this.#tell({ type: 'claimed', jobs: claimed })
    return { settled: [], opens: undefined, ...others, claimed }
  }

  async #exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    return this.#open().quiet.answerTo(request) ?? this.#ask(request)
  }

  async #ask(request: ExchangeRequest): Promise<ExchangeResult> {
    const { fastPath, deskExchange, quiet } = this.#open()
    const learn = quiet.asks(request)
    const exchanged = await fastPath.exchange(request)
    learn(exchanged?.waits === true)
    if (exchanged === undefined) return deskExchange.exchange(request)
    const { settlements } = request
    const { result } = exchanged
    if (settlements.length > 0) this.#tell({ type: 'settled', settlements })
    if (result.claimed.length > 0) this.#tell({ type: 'claimed', jobs: result.claimed })
    return result
  }

  async extend(request: ExtendRequest): Promise<ExtendResult> {
    return (await this.#open().idleLeases.extend(request)) ?? this.#extendAtDesk(request)
  }

  #extendAtDesk(request: ExtendRequest): Promise<ExtendResult> {
    const needs = deskNeeds(request.worker, request.held)
    return this.work(
      (tables) => {
        const result = extend(tables, request)
        if (request.held.length > 0) tables.signals.reported(request.held)
        return result
      },
      { needs },
    )
  }

  async sweep(request: SweepRequest): Promise<SweepReport> {
    const { quiet } = this.#open()
    const known = request.every === undefined ? undefined : await quiet.reportWithoutSweep()
    return known ?? this.work((tables) => sweep(tables, request), { like: 'sweep' })
  }

  operate(selector: Selector, command: Command): Promise<OperateReport> {
    return this.work((tables) => operate(tables, selector, command))
  }

  configure(setting: Setting): Promise<void> {
    return this.work((tables, now) => configure(tables, setting, now))
  }

  acquire(request: AcquireRequest): Promise<AcquireResult> {
    return this.work((tables, now) => tables.traffic.acquire(request, now))
  }

  schedule(changes: readonly ScheduleChange[]): Promise<ScheduleResult[]> {
    return this.work((tables, now) => schedule(tables, changes, now))
  }

  signal(signals: readonly NewSignal[]): Promise<SignalResult[]> {
    return this.work((tables, now) => signal(tables, signals, now))
  }

  guard(request: GuardRequest): Promise<GuardResult> {
    return this.work((tables, now) => guard(tables, request, now))
  }

  async begin(): Promise<StoreTransaction> {
    this.#open()
    throw noTransactions()
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

  /** At the desk. */
  async work<T>(verb: Verb<T>, options?: RedisDeskOptions<T>): Promise<T> {
    return this.#open().atDesk.work(verb, options)
  }

  /** Queues that are known to have limits or groups. */
  get limited(): ReadonlySet<string> {
    return this.#open().atDesk.limited
  }

  /** What only the desk knows how to ask. */
  async ask<T>(name: string, ...values: (string | number)[]): Promise<T> {
    return this.#open().reader.ask(name, values)
  }

  /** Jobs that are elsewhere by now; see shards/homecoming.ts. */
  async forgetMoved(ids: readonly string[]): Promise<void> {
    await this.#open().connection.run(scripts.moved, [this.#options.clock?.now() ?? '', ...ids])
  }

  #tell(signal: Signal): void {
    this.#engine?.tell(signal)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw new MillraceError('CLOSED', 'the store is closed')
    return this.#engine
  }
}

/** Of a job that has moved to another shard. */
const moved: InsertResult = { status: 'duplicate', state: undefined }

function noTransactions(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'the Redis store has no transactions that your own data could be part of, so it cannot take part in `tx`; ' +
      'leave it out, or use an engine that shares your database',
    { field: 'tx' },
  )
}
