/**
 * Brings jobs of an annex home, when they get to do with others. Three steps, each of which may be done again: the annex packs the
 * job, which nobody can claim or settle from then on; home takes it in, unless it has, and keeps a receipt; the annex forgets the
 * parcel. Whoever fails on the way leaves a parcel for the next sweep. One that has been on its way for long may have arrived, and
 * have ended and been forgotten since: home does not take it in before it was sent again, which only the annex can say.
 */
import { bounds } from '../../../core/bounds.js'
import { MillraceError } from '../../../core/errors.js'
import type { LeasedJob } from '../../../core/store.js'
import type { Entry } from '../../ledger/entry.js'
import { start } from '../../ledger/shelf.js'
import { Needs } from '../../page/needs.js'
import type { PagedTables } from '../../page/tables.js'
import type { Deeds } from '../page/deeds.js'
import type { ShardStore } from '../shard-store.js'
import { handleOf } from '../ticket.js'
import { tokens as leaseTokens } from '../token.js'
import { type Parcel, pack, unpack } from './parcel.js'
import { shardOf } from './placing.js'

/** Later than this, home asks for it to be sent again; receipts it keeps for longer. Clocks of nodes differ by less. */
export const late = 60_000
const receiptFor = 3_600_000

/** A parcel of someone who may be about to bring it is left alone for so long. */
const unhurried = 5_000

/** So long an insert that is done again finds that the job was here. */
const stubFor = 3_600_000

/** Stands for what a job was; see look.lua. As long as all values there are. */
const stub = '@'.padEnd(66)

export class Homecoming {
  readonly #home: ShardStore

  constructor(home: ShardStore) {
    this.#home = home
  }

  /** Jobs that a worker runs, or ran, by its tokens; tells those that they have at home. What it does not hold stays. */
  async held(
    annex: ShardStore,
    worker: string,
    jobs: readonly LeasedJob[],
    rescue = false,
  ): Promise<Map<string, string>> {
    const tokens = await this.#bring(
      annex,
      jobs.map(({ id }) => id),
      (tables, now) => {
        const holder = tables.workers.get(worker)
        const parcels: Parcel[] = []
        tables.each(jobs, ({ id, token }) => {
          const entry = tables.jobs.get(id)
          const mayTake = holder !== undefined && !(rescue && holder.expiresAt > now)
          const claim = claimAtHome(id, token)
          if (mayTake && claim !== undefined && tables.isHeld(entry, holder, token))
            parcels.push(pack(tables, entry, claim))
          else if (entry === undefined)
            parcels.push(...again(tables, id, (parcel) => parcel.lease?.token === token))
        })
        return parcels
      },
    )
    const missing = jobs.filter(({ id }) => !tokens.has(id))
    if (missing.length > 0)
      for (const [id, token] of await this.#brought(worker, missing)) tokens.set(id, token)
    return new Map(
      jobs.flatMap(({ id, token }) => {
        const there = tokens.get(id)
        return there === undefined ? [] : [[token, there]]
      }),
    )
  }

  /** Those of the worker that somebody else brought home for it. */
  #brought(worker: string, jobs: readonly LeasedJob[]): Promise<[id: string, token: string][]> {
    const needs = new Needs()
    for (const { id } of jobs) needs.key('job', id)
    return this.#home.work(
      (tables) => {
        const found: [string, string][] = []
        tables.each(jobs, ({ id, token }) => {
          const entry = tables.jobs.get(id)
          if (entry?.lease?.worker.id === worker && entry.lease.token === claimAtHome(id, token))
            found.push([id, tables.tokenOf(entry, entry.lease)])
        })
        return found
      },
      { needs },
    )
  }

  /** Of jobs that were found nowhere, brings those that are on their way, and tells which may be at home now. */
  async finish(shards: readonly ShardStore[], ids: readonly string[]): Promise<string[]> {
    const lists = await Promise.all(
      shards.map(async (annex, i) => {
        const part = ids.filter((id) => i > 0 && shardOf(id, shards.length) === i)
        if (part.length > 0) await this.#finishAt(annex, part)
        return part
      }),
    )
    return lists.flat()
  }

  async #finishAt(annex: ShardStore, ids: readonly string[]): Promise<void> {
    const parcels = await annex.ask<readonly (string | null)[]>('fields', 'parcels', ...ids)
    const left = ids.filter((_, i) => parcels[i] !== null)
    if (left.length > 0) await this.idle(annex, left)
  }

  /** Of jobs that came home long ago, once no parcel is left that could bring them again. */
  async forgetReceipts(shards: readonly ShardStore[]): Promise<void> {
    const ids = await this.#home.ask<readonly string[]>('overdue', 'receipts', bounds.batch)
    const lists = await Promise.all(
      shards.map(async (annex, i) => {
        const part = ids.filter((id) => i > 0 && shardOf(id, shards.length) === i)
        if (part.length === 0) return []
        const parcels = await annex.ask<readonly (string | null)[]>('fields', 'parcels', ...part)
        return part.filter((_, at) => parcels[at] === null)
      }),
    )
    const over = lists.flat()
    if (over.length === 0) return
    await this.#home.work(() => {}, { also: (_, deeds) => deeds.call('ZREM', 'receipts', ...over) })
  }

  /** Jobs that do not run, whatever their state. */
  async idle(annex: ShardStore, ids: readonly string[]): Promise<void> {
    await this.#bring(annex, ids, (tables) => {
      const parcels: Parcel[] = []
      tables.each(ids, (id) => {
        const entry = tables.jobs.get(id)
        if (entry === undefined) parcels.push(...again(tables, id, () => true))
        else if (entry.state !== 'running') parcels.push(pack(tables, entry, ''))
      })
      return parcels
    })
  }

  /** What others left on its way, and jobs that wait in queues with limits. Tells whether there may be more. */
  async sweep(annex: ShardStore, limit: number): Promise<boolean> {
    const left = await annex.ask<readonly string[]>('someFields', 'parcels', Math.min(limit, bounds.batch))
    if (left.length > 0)
      await this.#bring(annex, left, (tables, now) => {
        const parcels: Parcel[] = []
        tables.each(
          left,
          (id) => void parcels.push(...again(tables, id, ({ sentAt }) => now - sentAt >= unhurried)),
        )
        return parcels
      })
    const moved = await this.#bring(annex, [], (tables) =>
      waitingForHome(tables, limit).map((entry) => pack(tables, entry, '')),
    )
    return moved.size >= limit
  }

  /** The tokens at home of those that run, by id; '' for others. */
  async #bring(
    annex: ShardStore,
    ids: readonly string[],
    choose: (tables: PagedTables, now: number) => Parcel[],
  ): Promise<Map<string, string>> {
    const needs = new Needs()
    for (const id of ids) needs.key('job', id)
    const parcels = await annex.work(choose, {
      needs,
      isWhole: true,
      also: (sent, deeds) => send(sent, deeds),
    })
    if (parcels.length === 0) return new Map()
    const tokens = await this.#arrive(parcels)
    // What is left of it the next sweep finds.
    await annex.forgetMoved(parcels.map(({ row }) => row.id)).catch(() => {})
    return tokens
  }

  async #arrive(parcels: readonly Parcel[]): Promise<Map<string, string>> {
    const needs = new Needs()
    for (const { row } of parcels) {
      needs.key('job', row.id)
      needs.key('receipt', row.id)
    }
    needs.positions = parcels.length
    const arrived = await this.#home.work(
      (tables, now) => {
        const came: { readonly id: string; readonly token: string; readonly isNew: boolean }[] = []
        tables.each(parcels, (parcel) => void came.push(takeIn(tables, parcel, now)))
        return { came, now }
      },
      {
        needs,
        also: ({ came, now }, deeds) => {
          for (const { id, isNew } of came) if (isNew) deeds.call('ZADD', 'receipts', now + receiptFor, id)
        },
      },
    )
    return new Map(arrived.came.map(({ id, token }) => [id, token]))
  }
}

/**
 * What a job's claim is at home, by the token that its worker has: its own, for others of that claim may come from elsewhere.
 * Undefined, which no job is under, where the token is none.
 */
function claimAtHome(id: string, token: string): string | undefined {
  const lease = leaseTokens.read(id, token)
  return lease && `${lease.claim}-${id}`
}

/** One that is on its way, sent once more. */
function again(tables: PagedTables, id: string, isMeant: (parcel: Parcel) => boolean): Parcel[] {
  const text = tables.page.row<string>('parcel', id)
  if (text === null) return []
  const parcel = JSON.parse(text) as Parcel
  return isMeant(parcel) ? [{ ...parcel, sentAt: tables.page.now }] : []
}

function send(parcels: readonly Parcel[], deeds: Deeds): void {
  for (const parcel of parcels) {
    const { id } = parcel.row
    deeds.call('HSET', 'parcels', id, JSON.stringify(parcel))
    deeds.write('put', 'j', handleOf(id), stub)
    deeds.call('ZADD', 'stubs', parcel.sentAt + stubFor, handleOf(id))
  }
}

function takeIn(tables: PagedTables, parcel: Parcel, now: number) {
  const { id } = parcel.row
  if (now - parcel.sentAt > late)
    throw new MillraceError(
      'STORE_BUSY',
      `job ${id} was on its way to another shard for longer than ${late / 1000} s; it is sent again. If that does not end, compare the clocks of the nodes`,
    )
  const known = tables.jobs.get(id)
  const isNew = known === undefined && tables.page.row('receipt', id) === null
  const entry = isNew ? unpack(tables, parcel) : known
  const isOurs = entry?.lease?.token === parcel.lease?.claim || parcel.lease === undefined
  return { id, isNew, token: entry?.lease === undefined || !isOurs ? '' : tables.tokenOf(entry, entry.lease) }
}

/** Those that wait in lines of queues that have limits, which only home can mind. */
function waitingForHome({ kinds }: PagedTables, limit: number): Entry[] {
  const found: Entry[] = []
  for (const name of kinds.limitedQueues())
    for (const line of kinds.queue(name).lines)
      for (const entry of line.after(start.rank, start.seq, limit - found.length)) {
        if (found.length >= limit) return found
        found.push(entry)
      }
  return found
}
