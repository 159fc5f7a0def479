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
import { Opening } from '../../system/opening.js'
import { configure } from '../ledger/configure.js'
import { extend } from '../ledger/extend.js'
import { guard } from '../ledger/guard.js'
import { operate } from '../ledger/operate.js'
import { schedule } from '../ledger/schedule.js'
import { signal } from '../ledger/signal.js'
import { sweep } from '../ledger/sweep.js'
import type { PagedTables } from '../page/tables.js'
import type { Verb } from '../page/trying.js'
import type { RedisDeskOptions } from './desk.js'
import { type Engine, makeEngine } from './engine.js'
import { deskNeeds } from './needs.js'
import type { CompiledOptions } from './options.js'
import { scripts } from './scripts.js'

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
  readonly #opening = new Opening(() => this.#connect())
  /** Ends an attempt to open it. */
  #closing = new AbortController()

  constructor(number: number, options: CompiledOptions) {
    this.#number = number
    this.#options = options
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async #connect(): Promise<void> {
    this.#closing = new AbortController()
    const engine = await makeEngine(this.#number, this.#options, this.#closing.signal, {
      exchange: (request) => this.exchange(request),
      ask: (request) => this.#ask(request),
    })
    this.#engine = engine
    await engine.wakeUps?.start()
  }

  async close(): Promise<void> {
    if (this.#engine === undefined) this.#closing.abort()
    await this.#opening.over()
    const engine = this.#engine
    await engine?.wakeUps?.stop()
    await engine?.gifts.close()
    engine?.connection.close()
    // It may have been opened again by then.
    if (this.#engine !== engine) return
    this.#engine = undefined
    this.#opening.forget()
  }

  async insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    const { inserting } = this.#open()
    if (tx !== undefined) throw noTransactions()
    return inserting.insert(jobs)
  }

  /** Undefined where the desk is not to do it: nothing was written. */
  async insertIf(
    mayDo: (tables: PagedTables) => boolean,
    jobs: readonly NewJob[],
  ): Promise<InsertResult[] | undefined> {
    return this.#open().inserting.insertIf(mayDo, jobs)
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
    const { fastPath, deskExchange, quiet, wakeUps } = this.#open()
    const learn = quiet.asks(request)
    const exchanged = await fastPath.exchange(request)
    learn(exchanged?.waits === true)
    if (exchanged?.waits && request.claim !== undefined) wakeUps?.waitsFor(request.claim)
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

  /** Its server is known not to answer: whoever need not ask it goes elsewhere. */
  get isAway(): boolean {
    return this.#engine?.connection.shard.isAway === true
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

function noTransactions(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'the Redis store has no transactions that your own data could be part of, so it cannot take part in `tx`; ' +
      'leave it out, or use an engine that shares your database',
    { field: 'tx' },
  )
}
