/** A store whose jobs are spread over several shards: what is related to something at home, all else anywhere. */
import { bounds } from '../../../core/bounds.js'
import type { JobRecord, JobTrail, NewJob } from '../../../core/job.js'
import type {
  Cause,
  Command,
  Counts,
  ExchangeRequest,
  ExchangeResult,
  ExtendRequest,
  ExtendResult,
  Held,
  InsertResult,
  JobPage,
  JobQuery,
  LeasedJob,
  OperateReport,
  Selector,
  Setting,
  Signal,
  Stray,
  SweepReport,
  SweepRequest,
} from '../../../core/store.js'
import type { PagedTables } from '../../page/tables.js'
import type { CompiledOptions } from '../options.js'
import { ShardStore } from '../shard-store.js'
import { Exchanging } from './exchanging.js'
import { Homecoming } from './homecoming.js'
import { mergeCauses, mergeCounts, mergeList, notOurs } from './merging.js'
import { Moves } from './moves.js'
import {
  actsAmongOthers,
  endsAmongOthers,
  isLonely,
  relates,
  shardOf,
  tokenAt,
  tokenParts,
} from './placing.js'
import { Referral } from './referral.js'
import { mergeExtends, mergeOperations, mergeSweeps, shareOfKept } from './reports.js'

/** Another process may have failed before it did what it began: so often it is looked for, by the number of shards. */
const thoroughMs = { each: 5_000, most: 60_000 } as const

export class Shards {
  readonly #home: ShardStore
  readonly #shards: readonly ShardStore[]
  readonly #exchanging: Exchanging
  readonly #homecoming: Homecoming
  readonly #referral: Referral
  readonly #moves = new Moves()
  /** How many finished jobs each may keep. */
  #keep: readonly SweepRequest['keep'][] = []
  #thoroughAt = 0
  #opening: Promise<void> | undefined
  /** Annexes on which jobs wait that have to come home. */
  #restless: Set<ShardStore> = new Set()

  constructor(home: ShardStore, options: CompiledOptions) {
    this.#home = home
    const annexes = Array.from(
      { length: options.shards - 1 },
      (_, i) => new ShardStore(i + 1, { ...options, warn: false }),
    )
    this.#shards = [home, ...annexes]
    this.#exchanging = new Exchanging(this.#shards)
    this.#homecoming = new Homecoming(home)
    this.#referral = new Referral(home, annexes)
  }

  open(): Promise<void> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined // the next call may find the servers
      throw error
    })
    return this.#opening
  }

  async #open(): Promise<void> {
    await this.#home.open() // which knows how many there are
    await Promise.all(this.#shards.map((shard) => shard.open()))
    await this.#refer()
  }

  async close(): Promise<void> {
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
    if (related.length > 0) await this.#bringHome(request.worker, related, request.rescue)
    if (related.some(({ outcome }) => outcome.hold > 0 || outcome.crashed)) return this.#closing(request)
    return this.#exchange(request)
  }

  /** What is closed by how jobs ended the annexes have to know before they hand out more. */
  async #closing({ claim, ...request }: ExchangeRequest): Promise<ExchangeResult> {
    const ended = await this.#exchange({ ...request, claim: undefined })
    // What has ended has ended, whatever comes next. Annexes that were not told now are told by a sweep.
    const claimed = this.#refer()
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

  async extend(request: ExtendRequest): Promise<ExtendResult> {
    const { worker, held } = request
    const related = held.filter(actsAmongOthers)
    if (related.length > 0) await this.#bringHome(worker, related)
    await this.#moves.over(held)
    const sent = held.map((job) => this.#moves.atHome(job))
    const result = await this.#extend({ ...request, held: sent })
    // Those that set out meanwhile their annex did not know any more: home does.
    const lost = new Set(result.lost)
    const moved = held.filter((job, i) => lost.has(job.id) && sent[i] === job && this.#moves.hasBegun(job))
    if (moved.length === 0) return result
    const others = result.lost.filter((id) => moved.every((job) => job.id !== id))
    const { lease } = request
    return mergeExtends([{ ...result, lost: others }, await this.extend({ worker, lease, held: moved })])
  }

  async #extend({ worker, lease, held, inventory }: ExtendRequest): Promise<ExtendResult> {
    const leaving = inventory?.leaving.map((job) => this.#moves.atHome(job)) ?? []
    const parts = this.#shards.map((_, i) => this.#partOf(i, held))
    const results = await Promise.allSettled(
      this.#shards.map(async (shard, i) => {
        const part = parts[i] as Held[]
        // What is written of a few jobs renews no others.
        if (inventory === undefined && held.length > 0 && part.length === 0) return undefined
        const own = inventory && { ...inventory, leaving: this.#partOf(i, leaving) }
        const result = await shard.extend({ worker, lease, held: part, inventory: own })
        return { ...result, strays: this.#strays(i, result.strays) }
      }),
    )
    // One that cannot be reached and has none of the jobs is no reason to give them up.
    const failed = results.findIndex(
      ({ status }, i) => status === 'rejected' && (parts[i] as Held[]).length > 0,
    )
    const isAnswered = results.some(({ status }) => status === 'fulfilled')
    const reason = results[isAnswered ? failed : 0]
    if (reason?.status === 'rejected') throw reason.reason
    return mergeExtends(results.flatMap((end) => (end.status === 'fulfilled' && end.value) || []))
  }

  /** As their worker knows them; those that are on their way are none. */
  #strays(shard: number, strays: readonly Stray[]): Stray[] {
    return strays
      .filter(({ id }) => !this.#moves.isUnderWay(id))
      .map((stray) => this.#moves.asBefore({ ...stray, token: tokenAt(shard, stray.token) }))
  }

  #partOf<T extends LeasedJob>(shard: number, jobs: readonly T[]): T[] {
    return jobs.flatMap((job) => {
      const [at, token] = tokenParts(job.token, this.#shards.length)
      return at === shard ? [{ ...job, token }] : []
    })
  }

  async #bringHome(worker: string, jobs: readonly LeasedJob[], rescue = false): Promise<void> {
    const shardIn = ({ token }: LeasedJob) => tokenParts(token, this.#shards.length)[0]
    const away = this.#moves.notYet(jobs).filter((job) => shardIn(job) > 0)
    await Promise.all(
      [...new Set(away.map(shardIn))].map((shard) => {
        const part = away.filter((job) => shardIn(job) === shard)
        return this.#moves.begin(part, this.#bring(shard, worker, part, rescue))
      }),
    )
    await this.#moves.over(jobs)
  }

  async #bring(
    shard: number,
    worker: string,
    jobs: readonly LeasedJob[],
    rescue: boolean,
  ): Promise<Map<string, string>> {
    const annex = this.#shards[shard] as ShardStore
    const tokens = await this.#homecoming.held(annex, worker, this.#partOf(shard, jobs), rescue)
    return new Map([...tokens].map(([token, there]) => [tokenAt(shard, token), tokenAt(0, there)]))
  }

  /** Each shard does as much as is asked for. Where it is only now and then, so is what home and annexes have to do with each other. */
  async sweep(request: SweepRequest): Promise<SweepReport> {
    const isThorough = request.every === undefined || this.#isTime()
    if (isThorough) {
      await this.#refer()
      this.#keep = await shareOfKept(this.#shards, request.keep)
      await this.#homecoming.forgetReceipts(this.#shards)
    }
    const reports = await Promise.all(
      this.#shards.map(async (shard, i) => {
        const report = await shard.sweep({ ...request, keep: this.#keep[i] ?? request.keep })
        const isOpen = i > 0 && (isThorough || report.promoted > 0 || this.#restless.has(shard))
        const more = isOpen && (await this.#sweepHome(shard, request.limit))
        const orphans = report.orphans.map((orphan) => ({ ...orphan, token: tokenAt(i, orphan.token) }))
        return { ...report, orphans, more: report.more || more }
      }),
    )
    return mergeSweeps(reports)
  }

  async #sweepHome(annex: ShardStore, limit: number): Promise<boolean> {
    const more = await this.#homecoming.sweep(annex, limit)
    if (!more) this.#restless.delete(annex)
    return more
  }

  async #refer(): Promise<void> {
    if (await this.#referral.refer()) this.#restless = new Set(this.#shards.slice(1))
  }

  #isTime(): boolean {
    const now = performance.now()
    if (now < this.#thoroughAt) return false
    this.#thoroughAt = now + Math.min(thoroughMs.most, thoroughMs.each * this.#shards.length)
    return true
  }

  async operate(selector: Selector, command: Command): Promise<OperateReport> {
    if ('ids' in selector) return this.#operateOn(selector.ids, command)
    const shards = this.#homeLast
    const [first, start] = readCursor(selector.cursor, shards.length)
    let sum = mergeOperations([])
    for (let at = first, cursor = start; at < shards.length; at++, cursor = undefined) {
      const query = { ...selector, limit: selector.limit - touchedBy(sum), cursor }
      const report = await this.#operateAt(
        shards[at] as ShardStore,
        query,
        later(command, sum.affected.length),
      )
      sum = mergeOperations([sum, report])
      if (report.cursor !== undefined) return { ...sum, cursor: `${at}:${report.cursor}` }
      if (touchedBy(sum) >= selector.limit && at + 1 < shards.length) return { ...sum, cursor: `${at + 1}:` }
    }
    return sum
  }

  #operateAt(shard: ShardStore, query: JobQuery, command: Command): Promise<OperateReport> {
    if (shard === this.#home || !needsHome(command)) return shard.operate(query, command)
    return this.#operateOnList(shard, query, command)
  }

  /** Jobs only ever move home: whoever goes there last misses none. */
  get #homeLast(): readonly ShardStore[] {
    return [...this.#shards.slice(1), this.#home]
  }

  /** Each is where its id says, at home, or on its way there. */
  async #operateOn(ids: readonly string[], command: Command): Promise<OperateReport> {
    const parts = this.#shards.map((_, shard) =>
      shard === 0 ? [] : ids.filter((id) => shardOf(id, this.#shards.length) === shard),
    )
    const reports = await Promise.all(
      parts.map(async (part, i) => {
        const shard = this.#shards[i] as ShardStore
        if (part.length === 0) return undefined
        if (!needsHome(command)) return shard.operate({ ids: part }, command)
        await this.#homecoming.idle(shard, part)
        return undefined
      }),
    )
    const away = mergeOperations(reports.filter((report) => report !== undefined))
    const done = new Set([...away.affected, ...away.asked, ...away.refused])
    const rest = ids.filter((id) => !done.has(id))
    if (rest.length === 0) return { ...away, missing: [] }
    const atHome = await this.#home.operate({ ids: rest }, later(command, away.affected.length))
    const first = mergeOperations([{ ...away, missing: [] }, atHome])
    const arrived = await this.#finishMoves(atHome.missing)
    if (arrived.length === 0) return first
    const then = await this.#home.operate({ ids: arrived }, later(command, first.affected.length))
    const found = new Set(arrived.filter((id) => !then.missing.includes(id)))
    return { ...mergeOperations([first, then]), missing: first.missing.filter((id) => !found.has(id)) }
  }

  async #operateOnList(shard: ShardStore, query: JobQuery, command: Command): Promise<OperateReport> {
    const { jobs, cursor } = await shard.list(query)
    return {
      ...(await this.#operateOn(
        jobs.map(({ id }) => id),
        command,
      )),
      cursor,
    }
  }

  async configure(setting: Setting): Promise<void> {
    await this.#home.configure(setting)
    if ('paused' in setting) await Promise.all(this.#shards.slice(1).map((annex) => annex.configure(setting)))
    else await this.#refer()
  }

  async get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    const found = new Map<string, JobRecord>()
    await Promise.all(
      this.#shards.map(async (shard, i) => {
        const part = ids.filter((id) => i > 0 && shardOf(id, this.#shards.length) === i)
        if (part.length === 0) return
        for (const record of await shard.get(part)) if (record !== undefined) found.set(record.id, record)
      }),
    )
    const rest = ids.filter((id) => !found.has(id))
    if (rest.length > 0)
      for (const record of await this.#home.get(rest)) if (record !== undefined) found.set(record.id, record)
    const arrived = await this.#finishMoves(rest.filter((id) => !found.has(id)))
    if (arrived.length > 0)
      for (const record of await this.#home.get(arrived))
        if (record !== undefined) found.set(record.id, record)
    return ids.map((id) => found.get(id))
  }

  /** Of jobs that were found nowhere, those that may be at home now. */
  async #finishMoves(ids: readonly string[]): Promise<string[]> {
    const shards = this.#shards.length
    const lists = await Promise.all(
      this.#shards.map(async (annex, i) => {
        const part = ids.filter((id) => i > 0 && shardOf(id, shards) === i)
        return part.length === 0 ? [] : this.#homecoming.finish(annex, part)
      }),
    )
    return lists.flat()
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    const shard = this.#shards[shardOf(id, this.#shards.length)] as ShardStore
    const there = await shard.trail(id)
    if (there !== undefined || shard === this.#home) return there
    const atHome = await this.#home.trail(id)
    if (atHome !== undefined || (await this.#finishMoves([id])).length === 0) return atHome
    return this.#home.trail(id)
  }

  list(query: JobQuery): Promise<JobPage> {
    return mergeList(
      this.#homeLast.map((shard) => (part: JobQuery) => shard.list(part)),
      query,
    )
  }

  async counts(): Promise<Counts> {
    return mergeCounts(await Promise.all(this.#shards.map((shard) => shard.counts())))
  }

  async causes(): Promise<Cause[]> {
    return mergeCauses(await Promise.all(this.#shards.map((shard) => shard.causes())), bounds.page)
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

function touchedBy({ affected, asked, refused }: OperateReport): number {
  return affected.length + asked.length + refused.length
}

function needsHome(command: Command): boolean {
  return command.do === 'seal' || (command.do === 'retry' && relates(command.change))
}

/** The same for jobs that come after `count` others. */
function later(command: Command, count: number): Command {
  return command.do === 'retry' ? { ...command, delay: command.delay + count * command.spacing } : command
}

function readCursor(cursor: string | undefined, shards: number): [shard: number, cursor: string | undefined] {
  if (cursor === undefined) return [0, undefined]
  const [, shard, inner] = /^(\d+):(.*)$/s.exec(cursor) ?? []
  if (shard === undefined || Number(shard) >= shards) throw notOurs(cursor)
  return [Number(shard), inner || undefined]
}
