/** A store whose jobs are spread over several shards: what is related to something at home, all else anywhere. */
import type { JobRecord, JobTrail, NewJob } from '../../../core/job.js'
import type {
  Cause,
  Command,
  Counts,
  ExchangeRequest,
  ExchangeResult,
  ExtendRequest,
  ExtendResult,
  InsertResult,
  JobPage,
  JobQuery,
  OperateReport,
  Selector,
  Setting,
  Signal,
  SweepReport,
  SweepRequest,
} from '../../../core/store.js'
import { Opening } from '../../../system/opening.js'
import type { PagedTables } from '../../page/tables.js'
import type { CompiledOptions } from '../options.js'
import { ShardStore } from '../shard-store.js'
import { Exchanging } from './exchanging.js'
import { Extending } from './extending.js'
import { Finding } from './finding.js'
import { Homecoming, late } from './homecoming.js'
import { Moves } from './moves.js'
import { Operating } from './operating.js'
import { endsAmongOthers, isLonely, shardOf } from './placing.js'
import { Sweeping } from './sweeping.js'

/** Asking takes its time too. */
const mostApart = 30_000

export class Shards {
  readonly #home: ShardStore
  readonly #shards: readonly ShardStore[]
  readonly #moves: Moves
  readonly #exchanging: Exchanging
  readonly #extending: Extending
  readonly #sweeping: Sweeping
  readonly #operating: Operating
  readonly #finding: Finding
  readonly #opening = new Opening(() => this.#open())
  readonly #hasOwnClock: boolean

  constructor(home: ShardStore, options: CompiledOptions) {
    this.#home = home
    this.#hasOwnClock = options.clock === undefined && options.warn
    const annexes = Array.from(
      { length: options.shards - 1 },
      (_, i) => new ShardStore(i + 1, { ...options, warn: false }),
    )
    this.#shards = [home, ...annexes]
    const homecoming = new Homecoming(home)
    this.#moves = new Moves(this.#shards, homecoming)
    this.#exchanging = new Exchanging(this.#shards)
    this.#extending = new Extending(this.#shards, this.#moves)
    this.#sweeping = new Sweeping(this.#shards, homecoming)
    this.#operating = new Operating(this.#shards, homecoming)
    this.#finding = new Finding(this.#shards, homecoming)
  }

  open(): Promise<void> {
    return this.#opening.done()
  }

  async #open(): Promise<void> {
    try {
      await this.#home.open() // which knows how many there are
      await Promise.all(this.#shards.map((shard) => shard.open()))
      if (this.#hasOwnClock) await this.#compareClocks()
      await this.#sweeping.refer()
    } catch (error) {
      await this.#closeAll()
      throw error
    }
  }

  /** What is sent from one to another is taken for late by the clock of the one that gets it. */
  async #compareClocks(): Promise<void> {
    const times = await Promise.all(this.#shards.map((shard) => shard.work((_, now) => now)))
    const apart = Math.max(...times) - Math.min(...times)
    if (apart < mostApart) return
    process.emitWarning(
      `the clocks of the nodes differ by ${Math.round(apart / 1000)} s; beyond ${late / 1000} s jobs that get limits or relations are held up`,
      { code: 'MILLRACE_REDIS_CLOCKS' },
    )
  }

  async close(): Promise<void> {
    await this.#closeAll()
    // An attempt may have opened some meanwhile.
    await this.#opening.over()
    await this.#closeAll()
    this.#opening.forget()
  }

  async #closeAll(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.close()))
  }

  /** Atomic for each shard. */
  async insert(jobs: readonly NewJob[], tx?: unknown): Promise<InsertResult[]> {
    if (tx !== undefined) return this.#home.insert(jobs, tx)
    const places = jobs.map((job) => (isLonely(job) ? shardOf(job.id, this.#shards.length) : 0))
    const results = new Array<InsertResult>(jobs.length)
    await Promise.all(
      [...new Set(places)].map(async (shard) => {
        const part = jobs.filter((_, i) => places[i] === shard)
        const inserted = (await this.#insertAt(shard, part)).values()
        for (let i = 0; i < jobs.length; i++)
          if (places[i] === shard) results[i] = inserted.next().value as InsertResult
      }),
    )
    return results
  }

  async #insertAt(shard: number, jobs: readonly NewJob[]): Promise<InsertResult[]> {
    if (shard === 0) return this.#home.insert(jobs)
    const annex = this.#shards[shard] as ShardStore
    const isLimited = jobs.some(({ queue }) => this.#home.limited.has(queue))
    const hasNone = ({ kinds }: PagedTables) => jobs.every((job) => !kinds.of(job).queue.traffic)
    const results = isLimited ? undefined : await annex.insertIf(hasNone, jobs)
    return results === undefined ? this.#insertAtHome(annex, jobs) : this.#withStates(jobs, results)
  }

  /** Limits are minded at home; what was inserted before there were any stays where it is. */
  async #insertAtHome(annex: ShardStore, jobs: readonly NewJob[]): Promise<InsertResult[]> {
    const known = await annex.get(jobs.map(({ id }) => id))
    const inserted = (await this.#home.insert(jobs.filter((_, i) => known[i] === undefined))).values()
    return known.map((record) =>
      record === undefined
        ? (inserted.next().value as InsertResult)
        : { status: 'duplicate', state: record.state },
    )
  }

  /** Of jobs that have come home since they were inserted, only home knows. */
  async #withStates(jobs: readonly NewJob[], results: InsertResult[]): Promise<InsertResult[]> {
    const unknown = jobs.filter(
      (_, i) => results[i]?.status === 'duplicate' && results[i]?.state === undefined,
    )
    if (unknown.length === 0) return results
    const records = await this.#home.get(unknown.map(({ id }) => id))
    const states = new Map(unknown.map(({ id }, i) => [id, records[i]?.state]))
    return results.map((result, i) => {
      const { id } = jobs[i] as NewJob
      return states.has(id) ? { ...result, state: states.get(id) } : result
    })
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const related = request.settlements.filter(endsAmongOthers)
    if (related.length > 0) await this.#moves.bringHome(request.worker, related, request.rescue)
    if (related.some(({ outcome }) => outcome.hold > 0 || outcome.crashed)) return this.#closing(request)
    return this.#exchange(request)
  }

  /** What is closed by how jobs ended the annexes have to know before they hand out more. */
  async #closing({ claim, ...request }: ExchangeRequest): Promise<ExchangeResult> {
    const ended = await this.#exchange({ ...request, claim: undefined })
    // What has ended has ended, whatever comes next. Annexes that were not told now are told by a sweep.
    const claimed = this.#sweeping
      .refer()
      .then(() => claim && this.#exchange({ ...request, settlements: [], claim }))
      .catch(() => undefined)
    return { claimed: [], opens: undefined, ...(await claimed), settled: ended.settled }
  }

  async #exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const moving = this.#moves.over(request.settlements)
    // Without a wait, a claim goes along with the insert that announced it.
    if (moving !== undefined) await moving
    const settlements = request.settlements.map((settlement) => this.#moves.atHome(settlement))
    const result = await this.#exchanging.exchange({ ...request, settlements })
    for (const settlement of request.settlements) this.#moves.forget(settlement)
    return result
  }

  extend(request: ExtendRequest): Promise<ExtendResult> {
    return this.#extending.extend(request)
  }

  sweep(request: SweepRequest): Promise<SweepReport> {
    return this.#sweeping.sweep(request)
  }

  operate(selector: Selector, command: Command): Promise<OperateReport> {
    return this.#operating.operate(selector, command)
  }

  async configure(setting: Setting): Promise<void> {
    await this.#home.configure(setting)
    if ('paused' in setting) await Promise.all(this.#shards.slice(1).map((annex) => annex.configure(setting)))
    else await this.#sweeping.refer()
  }

  get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    return this.#finding.get(ids)
  }

  trail(id: string): Promise<JobTrail | undefined> {
    return this.#finding.trail(id)
  }

  list(query: JobQuery): Promise<JobPage> {
    return this.#finding.list(query)
  }

  counts(): Promise<Counts> {
    return this.#finding.counts()
  }

  causes(): Promise<Cause[]> {
    return this.#finding.causes()
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    const ends = this.#shards.map((shard, i) =>
      shard.subscribe((signal) => {
        if (signal.type === 'arriving') this.#exchanging.announcing = i
        try {
          listener(signal)
        } finally {
          if (signal.type === 'arriving') this.#exchanging.announcing = undefined
        }
      }),
    )
    return () => {
      for (const end of ends) end()
    }
  }
}
