/** Renews a worker's lease on all shards, and writes what its jobs have done where each of them is. */
import type { ExtendRequest, ExtendResult, Held, Stray } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import { keepLatest, type Moves } from './moves.js'
import { answersOf, inTime } from './patience.js'
import { actsAmongOthers, partOf, tokenAt } from './placing.js'
import { mergeExtends } from './reports.js'

/** This part of a lease it waits for a shard when others have answered: their jobs are to be renewed in time. */
const partOfLease = 6

export class Extending {
  readonly #shards: readonly ShardStore[]
  readonly #moves: Moves
  /** When each shard has renewed a worker's lease, by the monotonic clock: others may have its jobs a lease later. */
  readonly #renewed = new Map<string, number[]>()

  constructor(shards: readonly ShardStore[], moves: Moves) {
    this.#shards = shards
    this.#moves = moves
  }

  /** Renews all that a worker has, or writes what some of its jobs have done: that is done, or it fails. */
  extend(request: ExtendRequest): Promise<ExtendResult> {
    return request.inventory === undefined ? this.#write(request) : this.#renew(request)
  }

  async #write(request: ExtendRequest): Promise<ExtendResult> {
    const { worker, held } = request
    const related = held.filter(actsAmongOthers)
    if (related.length > 0) await this.#moves.bringHome(worker, related)
    await this.#moves.over(held)
    return this.#extend(request)
  }

  /** One shard that is away is no reason to lose what is on the others. */
  async #renew(request: ExtendRequest): Promise<ExtendResult> {
    const { held, lease } = request
    const moving = this.#moves.over(held)
    if (moving === undefined || (await inTime(moving, lease / partOfLease))) return this.#extend(request)
    const isUnderWay = ({ id }: Held) => this.#moves.isUnderWay(id)
    const rest = held.filter((job) => !isUnderWay(job))
    return mergeExtends([await this.#extend({ ...request, held: rest }), unheardAll(held.filter(isUnderWay))])
  }

  async #extend(request: ExtendRequest): Promise<ExtendResult> {
    const { held } = request
    const sent = held.map((job) => this.#moves.atHome(job))
    const result = await this.#ask({ ...request, held: sent })
    // Those that set out meanwhile their annex did not know any more: home does.
    const lost = new Set(result.lost)
    const moved = held.filter((job, i) => lost.has(job.id) && sent[i] === job && this.#moves.hasBegun(job))
    if (moved.length === 0) return result
    const others = result.lost.filter((id) => moved.every((job) => job.id !== id))
    const there = await this.extend({ ...request, held: moved })
    return mergeExtends([
      { ...result, lost: others },
      { ...there, strays: [] },
    ])
  }

  async #ask(request: ExtendRequest): Promise<ExtendResult> {
    const { worker, lease, held, inventory } = request
    const parts = this.#shards.map((_, i) => partOf(i, held, this.#shards.length))
    const calls = this.#shards.map((_, i) => this.#askShard(i, request, parts[i] as Held[]))
    const answers = await answersOf(calls, inventory === undefined ? undefined : lease / partOfLease)
    const failed = answers.find((answer) => answer?.status === 'rejected')
    const isAnswered = answers.some((answer) => answer?.status === 'fulfilled')
    if (failed !== undefined && (inventory === undefined || !isAnswered)) throw failed.reason
    return mergeExtends(
      answers.flatMap((answer, i) => {
        if (answer?.status === 'fulfilled') return answer.value ?? []
        return this.#isOver(worker, i, lease) ? lostAll(parts[i] as Held[]) : unheardAll(parts[i] as Held[])
      }),
    )
  }

  async #askShard(
    i: number,
    { worker, lease, inventory, held: all }: ExtendRequest,
    held: readonly Held[],
  ): Promise<ExtendResult | undefined> {
    // What is written of a few jobs renews no others.
    if (inventory === undefined && all.length > 0 && held.length === 0) return undefined
    const leaving = inventory?.leaving.map((job) => this.#moves.atHome(job)) ?? []
    const own = inventory && { ...inventory, leaving: partOf(i, leaving, this.#shards.length) }
    const renewed = this.#renewedBy(worker)
    const asked = performance.now()
    const result = await (this.#shards[i] as ShardStore).extend({ worker, lease, held, inventory: own })
    renewed[i] = asked
    return { ...result, strays: this.#strays(i, result.strays) }
  }

  #renewedBy(worker: string): number[] {
    let renewed = this.#renewed.get(worker)
    if (renewed === undefined) {
      renewed = this.#shards.map(() => performance.now())
      this.#renewed.set(worker, renewed)
      keepLatest(this.#renewed)
    }
    return renewed
  }

  #isOver(worker: string, shard: number, lease: number): boolean {
    return performance.now() - (this.#renewedBy(worker)[shard] as number) >= lease
  }

  /** As their worker knows them; those that are on their way are none. */
  #strays(shard: number, strays: readonly Stray[]): Stray[] {
    return strays
      .filter(({ id }) => !this.#moves.isUnderWay(id))
      .map((stray) => this.#moves.asBefore({ ...stray, token: tokenAt(shard, stray.token) }))
  }
}

const none: ExtendResult = { lost: [], cancels: [], open: [], strays: [] }

function lostAll(held: readonly Held[]): ExtendResult {
  return { ...none, lost: held.map(({ id }) => id) }
}

function unheardAll(held: readonly Held[]): ExtendResult {
  return { ...none, unheard: held.map(({ id }) => id) }
}
