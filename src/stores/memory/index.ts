import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { GuardRequest, GuardResult } from '../../core/guard.js'
import type { JobRecord, JobTrail, NewJob } from '../../core/job.js'
import { noUnknown } from '../../core/options.js'
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
import { systemClock } from '../../system/clock.js'
import { configure } from '../ledger/configure.js'
import { exchange } from '../ledger/exchange.js'
import { extend } from '../ledger/extend.js'
import { guard } from '../ledger/guard.js'
import { insert } from '../ledger/insert.js'
import { links } from '../ledger/links.js'
import { operate } from '../ledger/operate.js'
import { schedule } from '../ledger/schedule.js'
import { signal } from '../ledger/signal.js'
import { sweep } from '../ledger/sweep.js'
import { counts, gates, get, list, schedules, trail } from './read.js'
import { MemoryTables } from './tables.js'

export interface MemoryOptions {
  /** The store's clock; tests pass a virtual one. @default the system's */
  readonly clock?: Clock
}

export function memoryStore(options: MemoryOptions = {}): MemoryStore {
  return new MemoryStore(options)
}

/**
 * Jobs in this process alone; they end with it. The model of what every engine does: each verb does all of
 * its work before it returns its promise, so nothing ever comes in between.
 */
export class MemoryStore implements Store {
  readonly capabilities: Capabilities = {
    engine: 'memory',
    durable: false,
    shared: false,
    transactions: false,
  }
  readonly #clock: Clock
  #tables: MemoryTables | undefined

  constructor(options: MemoryOptions = {}) {
    noUnknown(options, ['clock'], 'memory')
    this.#clock = options.clock ?? systemClock
    this.#tables = new MemoryTables(this.#clock)
  }

  async open(): Promise<void> {
    this.#open()
  }

  async close(): Promise<void> {
    this.#tables = undefined
  }

  async insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    const tables = this.#open()
    if (tx !== undefined) throw noTransactions()
    tables.needRoom(jobs.length)
    const results = insert(tables, jobs, this.#clock.now())
    tables.signals.tell()
    return results
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const tables = this.#open()
    const result = exchange(tables, request, this.#clock.now())
    tables.signals.tell()
    return result
  }

  async extend(request: ExtendRequest): Promise<ExtendResult> {
    const tables = this.#open()
    const result = extend(tables, request)
    if (request.held.length > 0) tables.signals.reported(request.held)
    tables.signals.tell()
    return result
  }

  async sweep(request: SweepRequest): Promise<SweepReport> {
    const tables = this.#open()
    const report = sweep(tables, request)
    tables.signals.tell()
    return report
  }

  async operate(selector: Selector, command: Command): Promise<OperateReport> {
    const tables = this.#open()
    const report = operate(tables, selector, command)
    tables.signals.tell()
    return report
  }

  async configure(setting: Setting): Promise<void> {
    const tables = this.#open()
    configure(tables, setting, this.#clock.now())
    tables.signals.tell()
  }

  async acquire(request: AcquireRequest): Promise<AcquireResult> {
    return this.#open().traffic.acquire(request, this.#clock.now())
  }

  async get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    return get(this.#open(), ids)
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    return trail(this.#open(), id)
  }

  async list(query: JobQuery): Promise<JobPage> {
    return list(this.#open(), query)
  }

  async counts(): Promise<Counts> {
    return counts(this.#open())
  }

  async causes(): Promise<Cause[]> {
    return this.#open().causes.list()
  }

  async gates(query: GateQuery): Promise<GatePage> {
    return gates(this.#open(), query)
  }

  async schedule(changes: readonly ScheduleChange[]): Promise<ScheduleResult[]> {
    const tables = this.#open()
    const results = schedule(tables, changes, this.#clock.now())
    tables.signals.tell()
    return results
  }

  async schedules(query: ScheduleQuery): Promise<SchedulePage> {
    return schedules(this.#open(), query)
  }

  async signal(signals: readonly NewSignal[]): Promise<SignalResult[]> {
    const tables = this.#open()
    const results = signal(tables, signals, this.#clock.now())
    tables.signals.tell()
    return results
  }

  async guard(request: GuardRequest): Promise<GuardResult> {
    const tables = this.#open()
    const result = guard(tables, request, this.#clock.now())
    tables.signals.tell()
    return result
  }

  async begin(): Promise<StoreTransaction> {
    this.#open()
    throw noTransactions()
  }

  async links(query: LinkQuery): Promise<LinkPage> {
    const { jobs } = this.#open()
    return links((id) => jobs.get(id)?.story?.parenthood?.links, query)
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#open().signals.subscribe(listener)
  }

  #open(): MemoryTables {
    if (this.#tables === undefined) throw new MillraceError('CLOSED', 'the store is closed')
    return this.#tables
  }
}

function noTransactions(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'the memory store has no transactions, so it cannot take part in `tx`; ' +
      'leave it out, or use an engine that shares your database',
    { field: 'tx' },
  )
}
