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
import { compileOptions, type RedisOptions } from './options.js'
import { ShardStore } from './shard-store.js'
import { Shards } from './shards/shards.js'

export type { Durability } from './durability.js'
export type { RedisOptions } from './options.js'

export function redisStore(options: RedisOptions): RedisStore {
  return new RedisStore(options)
}

/** Jobs in Redis or Valkey: one server, one behind Sentinel, or a cluster, over one of whose slots or several. */
export class RedisStore implements Store {
  readonly capabilities: Capabilities
  /** All that is related to something; where there is one shard, everything. */
  readonly #home: ShardStore
  /** The same where jobs are spread over several. */
  readonly #shards: Shards | undefined

  constructor(options: RedisOptions) {
    const compiled = compileOptions(options)
    this.#home = new ShardStore(0, compiled)
    this.capabilities = this.#home.capabilities
    if (compiled.shards > 1) this.#shards = new Shards(this.#home, compiled)
  }

  get #all(): ShardStore | Shards {
    return this.#shards ?? this.#home
  }

  open(): Promise<void> {
    return this.#all.open()
  }

  close(): Promise<void> {
    return this.#all.close()
  }

  insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    return this.#all.insert(jobs, tx)
  }

  exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    return this.#all.exchange(request)
  }

  extend(request: ExtendRequest): Promise<ExtendResult> {
    return this.#all.extend(request)
  }

  sweep(request: SweepRequest): Promise<SweepReport> {
    return this.#all.sweep(request)
  }

  operate(selector: Selector, command: Command): Promise<OperateReport> {
    return this.#all.operate(selector, command)
  }

  configure(setting: Setting): Promise<void> {
    return this.#all.configure(setting)
  }

  acquire(request: AcquireRequest): Promise<AcquireResult> {
    return this.#home.acquire(request)
  }

  schedule(changes: readonly ScheduleChange[]): Promise<ScheduleResult[]> {
    return this.#home.schedule(changes)
  }

  signal(signals: readonly NewSignal[]): Promise<SignalResult[]> {
    return this.#home.signal(signals)
  }

  guard(request: GuardRequest): Promise<GuardResult> {
    return this.#home.guard(request)
  }

  begin(): Promise<StoreTransaction> {
    return this.#home.begin()
  }

  get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    return this.#all.get(ids)
  }

  trail(id: string): Promise<JobTrail | undefined> {
    return this.#all.trail(id)
  }

  list(query: JobQuery): Promise<JobPage> {
    return this.#all.list(query)
  }

  counts(): Promise<Counts> {
    return this.#all.counts()
  }

  causes(): Promise<Cause[]> {
    return this.#all.causes()
  }

  gates(query: GateQuery): Promise<GatePage> {
    return this.#home.gates(query)
  }

  schedules(query: ScheduleQuery): Promise<SchedulePage> {
    return this.#home.schedules(query)
  }

  links(query: LinkQuery): Promise<LinkPage> {
    return this.#home.links(query)
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#all.subscribe(listener)
  }
}
