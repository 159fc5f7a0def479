/** Renews a worker's lease on all shards, and writes what its jobs have done where each of them is. */
import type { ExtendRequest, ExtendResult, Held, Stray } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import type { Moves } from './moves.js'
import { actsAmongOthers, partOf, tokenAt } from './placing.js'
import { mergeExtends } from './reports.js'

export class Extending {
  readonly #shards: readonly ShardStore[]
  readonly #moves: Moves

  constructor(shards: readonly ShardStore[], moves: Moves) {
    this.#shards = shards
    this.#moves = moves
  }

  async extend(request: ExtendRequest): Promise<ExtendResult> {
    const { worker, held } = request
    const related = held.filter(actsAmongOthers)
    if (related.length > 0) await this.#moves.bringHome(worker, related)
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
    const parts = this.#shards.map((_, i) => partOf(i, held, this.#shards.length))
    const results = await Promise.allSettled(
      this.#shards.map(async (shard, i) => {
        const part = parts[i] as Held[]
        // What is written of a few jobs renews no others.
        if (inventory === undefined && held.length > 0 && part.length === 0) return undefined
        const own = inventory && { ...inventory, leaving: partOf(i, leaving, this.#shards.length) }
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
}
