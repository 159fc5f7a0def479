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
import { exchange } from '../ledger/exchange.js'
import { extend } from '../ledger/extend.js'
import { guard } from '../ledger/guard.js'
import { insert } from '../ledger/insert.js'
import { operate } from '../ledger/operate.js'
import { schedule } from '../ledger/schedule.js'
import { signal } from '../ledger/signal.js'
import { sweep } from '../ledger/sweep.js'
import { Subscribers } from '../page/subscribers.js'
import type { Verb } from '../page/trying.js'
import { AtDesk } from './at-desk.js'
import { type Connection, openConnection } from './connection.js'
import { Desk, type DeskOptions } from './desk.js'
import { Exchanger } from './exchange.js'
import { FastPath } from './fast-path.js'
import { type Inserted, Inserter } from './insert.js'
import { deskNeeds, insertNeeds } from './needs.js'
import { type CompiledOptions, compileOptions, type RedisOptions } from './options.js'
import { Reader } from './read.js'
import { WakeUps } from './wake-ups.js'

export type { RedisOptions } from './options.js'

export function redisStore(options: RedisOptions): RedisStore {
  return new RedisStore(options)
}

interface Engine {
  readonly connection: Connection
  readonly fastPath: FastPath
  readonly atDesk: AtDesk
  readonly reader: Reader
  readonly subscribers: Subscribers
  readonly wakeUps: WakeUps | undefined
}

/** Jobs in Redis or Valkey: one server, one behind Sentinel, or a cluster. */
export class RedisStore implements Store {
  readonly capabilities: Capabilities = {
    engine: 'redis',
    durable: true,
    shared: true,
    remote: true,
    transactions: false,
  }
  readonly #options: CompiledOptions
  #engine: Engine | undefined
  #opening: Promise<void> | undefined

  constructor(options: RedisOptions) {
    this.#options = compileOptions(options)
  }

  open(): Promise<void> {
    this.#opening ??= this.#connect().catch((error: unknown) => {
      this.#opening = undefined // the next call may find the server
      throw error
    })
    return this.#opening
  }

  async #connect(): Promise<void> {
    const { clock, listen } = this.#options
    const connection = await openConnection(this.#options)
    const subscribers = new Subscribers()
    const tell = (signal: Signal) => subscribers.tell(signal)
    const ear = newToken()
    const now = () => clock?.now() ?? ''
    const wakeUps = listen ? new WakeUps(connection, ear, tell) : undefined
    const desk = new Desk(connection, ear, clock)
    const atDesk = new AtDesk(desk, tell)
    const inserter = new Inserter(connection, ear, now)
    const exchanger = new Exchanger(connection, () => (wakeUps?.listening ? ear : ''), now)
    const fastPath = new FastPath({ inserter, exchanger, limited: atDesk.limited })
    this.#engine = { connection, fastPath, atDesk, reader: new Reader(desk), subscribers, wakeUps }
    await wakeUps?.start()
  }

  async close(): Promise<void> {
    const engine = this.#engine
    this.#engine = undefined
    await engine?.wakeUps?.stop()
    engine?.connection.close()
  }

  async insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    const { fastPath } = this.#open()
    if (tx !== undefined) throw noTransactions()
    if (jobs.length === 0) return []
    const inserted = await fastPath.insert(jobs)
    if (inserted === undefined) {
      const options = { needs: insertNeeds(jobs), like: 'insert' }
      return this.#work((tables, now) => insert(tables, jobs, now), options)
    }
    this.#tellOf(inserted)
    return this.#withStates(jobs, inserted.results)
  }

  #tellOf({ ready, soonest }: Inserted): void {
    if (ready.size > 0) this.#tell({ type: 'ready', queues: ready })
    if (soonest !== undefined) this.#tell({ type: 'due', delay: soonest })
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
    const result = await this.#open().fastPath.exchange(request)
    if (result === undefined) return this.#exchangeAtDesk(request)
    const { settlements } = request
    if (settlements.length > 0) this.#tell({ type: 'settled', settlements })
    if (result.claimed.length > 0) this.#tell({ type: 'claimed', jobs: result.claimed })
    return result
  }

  #exchangeAtDesk(request: ExchangeRequest): Promise<ExchangeResult> {
    const { worker, settlements, claim } = request
    const count = claim?.room.own.reduce((sum, slots) => sum + slots, claim.room.shared)
    return this.#work((tables, now) => exchange(tables, request, now), {
      needs: deskNeeds(worker, settlements),
      renewsByTaking: true,
      ...(count === undefined ? { like: 'settle' } : { count, like: `claim ${worker}` }),
    })
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

  sweep(request: SweepRequest): Promise<SweepReport> {
    return this.#work((tables) => sweep(tables, request), { like: 'sweep' })
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

  async #work<T>(verb: Verb<T>, options?: DeskOptions): Promise<T> {
    return this.#open().atDesk.work(verb, options)
  }

  #tell(signal: Signal): void {
    this.#engine?.subscribers.tell(signal)
  }

  #open(): Engine {
    if (this.#engine === undefined) throw new MillraceError('CLOSED', 'the store is closed')
    return this.#engine
  }
}

function noTransactions(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'the Redis store has no transactions that your own data could be part of, so it cannot take part in `tx`; ' +
      'leave it out, or use an engine that shares your database',
    { field: 'tx' },
  )
}
