/** Renews a worker's lease on all shards, and writes what its jobs have done where each of them is. */
import { MillraceError } from '../../../core/errors.js'
import type { ExtendRequest, ExtendResult, Held, Stray } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import { keepLatest, type Moves } from './moves.js'
import { answersOf, inTime } from './patience.js'
import { actsAmongOthers, partOf, tokenAt, tokenParts } from './placing.js'
import { mergeExtends } from './reports.js'

/**
 * This part of a lease it waits for jobs that are on their way, and again for a shard when others have answered: well below the
 * third of a lease after which the worker renews once more.
 */
const partOfLease = 12

export class Extending {
  readonly #shards: readonly ShardStore[]
  readonly #moves: Moves
  /** When each shard has renewed a worker's lease, by the monotonic clock: others may have its jobs a lease later. */
  readonly #renewed = new Map<string, number[]>()
  /** Renewals that a shard has not answered in time, by shard and worker: it is not asked again before. */
  readonly #late = new Map<string, Promise<unknown>>()

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
    const { result, moved } = await this.#ask(request)
    return moved.length === 0
      ? result
      : mergeExtends([result, await this.#write({ ...request, held: moved })])
  }

  /** One shard that is away is no reason to lose what is on the others. */
  async #renew(request: ExtendRequest): Promise<ExtendResult> {
    const { worker, held, lease } = request
    const moving = this.#moves.over(held)
    const haveArrived = moving === undefined || (await inTime(moving, lease / partOfLease))
    const isUnderWay = ({ id }: Held) => !haveArrived && this.#moves.isUnderWay(id)
    const { result, moved } = await this.#ask({ ...request, held: held.filter((job) => !isUnderWay(job)) })
    // Home has renewed its lease too. What they reported is told there the next time.
    const away = [...held.filter(isUnderWay), ...moved]
    const isOver = ({ token }: Held) =>
      this.#isOver(worker, 0, lease) || this.#isOver(worker, tokenParts(token, this.#shards.length)[0], lease)
    return mergeExtends([
      result,
      lostAll(away.filter(isOver)),
      unheardAll(away.filter((job) => !isOver(job))),
    ])
  }

  /** `moved`: those that set out meanwhile. Their annex did not know them any more; home does. */
  async #ask(request: ExtendRequest): Promise<{ result: ExtendResult; moved: readonly Held[] }> {
    const { held } = request
    const sent = held.map((job) => this.#moves.atHome(job))
    const result = await this.#askAll({ ...request, held: sent })
    const lost = new Set(result.lost)
    const moved = held.filter((job, i) => lost.has(job.id) && sent[i] === job && this.#moves.hasBegun(job))
    const others = result.lost.filter((id) => moved.every((job) => job.id !== id))
    return { result: { ...result, lost: others }, moved }
  }

  async #askAll(request: ExtendRequest): Promise<ExtendResult> {
    const { worker, lease, held, inventory } = request
    const parts = this.#shards.map((_, i) => partOf(i, held, this.#shards.length))
    const calls = this.#shards.map((_, i) => this.#askOnce(i, request, parts[i] as Held[]))
    const answers = await answersOf(calls, inventory === undefined ? undefined : lease / partOfLease)
    answers.forEach((answer, i) => {
      if (answer === undefined) this.#follow(`${i} ${worker}`, calls[i] as Promise<unknown>)
    })
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

  #follow(name: string, late: Promise<unknown>): void {
    if (this.#late.has(name)) return
    const over = () => this.#late.delete(name)
    this.#late.set(name, late)
    late.then(over, over)
  }

  async #askOnce(
    i: number,
    request: ExtendRequest,
    held: readonly Held[],
  ): Promise<ExtendResult | undefined> {
    const late = request.inventory && this.#late.get(`${i} ${request.worker}`)
    if (late === undefined) return this.#askShard(i, request, held)
    // Its answer is about what was held then, and says nothing of this time.
    await late.catch(() => {})
    throw new MillraceError('STORE_UNAVAILABLE', `shard ${i} has only just answered the renewal before`)
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
    renewed[i] = Math.max(renewed[i] as number, asked)
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
