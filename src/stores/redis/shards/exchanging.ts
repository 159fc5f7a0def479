/** Settles jobs where they are, and claims from one shard after the other. */
import type { ClaimedJob } from '../../../core/job.js'
import type { Room } from '../../../core/lanes.js'
import type {
  ClaimRequest,
  ExchangeRequest,
  ExchangeResult,
  Settlement,
  SettleResult,
} from '../../../core/store.js'
import { few } from '../../page/boarding.js'
import type { ShardStore } from '../shard-store.js'
import { keepLatest } from './moves.js'
import { tokenAt, tokenParts } from './placing.js'

export class Exchanging {
  readonly #shards: readonly ShardStore[]
  /** Where a claim begins, by its token: asked again, it is to meet the shards in the same order. */
  readonly #starts = new Map<string, number>()
  #turn = 0
  /** Of claims that failed in part: what the shards that answered gave, by token and shard. */
  readonly #given = new Map<string, ExchangeResult>()
  /** Of exchanges that failed in part: what became of the settlements that did not, by their tokens. */
  readonly #settled = new Map<string, SettleResult>()
  /** The shard that is about to get jobs, while it says so: a claim may go along with them. */
  announcing: number | undefined

  constructor(shards: readonly ShardStore[]) {
    this.#shards = shards
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const { worker, settlements, claim, rescue } = request
    const first = claim === undefined ? -1 : this.#startOf(claim)
    const results = settlements.map(({ token }) => this.#settledBefore(token))
    const parts = this.#partsOf(settlements, results)
    // The one that is claimed from goes first: whoever announces jobs waits for no other.
    const claiming = claim && this.#claimFrom(first, claim.room, request, parts.get(first) ?? [], results)
    parts.delete(first)
    const settling = [...parts].map(async ([shard, part]) => {
      const inner = {
        worker,
        settlements: part.map(({ settlement }) => settlement),
        claim: undefined,
        ...(rescue && { rescue }),
      }
      const { settled } = await (this.#shards[shard] as ShardStore).exchange(inner)
      note(results, part, settled)
    })
    const ends = await Promise.allSettled([claiming, ...settling])
    try {
      const failed = ends.find((end) => end.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      const found = claim && (await this.#claimOn(first, request, (await claiming) as ExchangeResult))
      return { ...(found ?? nothing), settled: results.map((result) => result ?? 'lost') }
    } catch (error) {
      this.#remember(settlements, results)
      throw error
    }
  }

  /** What is left of the room is for the next shards. */
  async #claimOn(first: number, request: ExchangeRequest, found: ExchangeResult): Promise<ExchangeResult> {
    const { room, token } = request.claim as ClaimRequest
    const claimed: ClaimedJob[] = [...found.claimed]
    let opens = found.opens
    for (let i = 1; i < this.#shards.length; i++) {
      const left = roomAfter(room, claimed)
      if (sizeOf(left) === 0) break
      const next = await this.#claimFrom((first + i) % this.#shards.length, left, request, [], [])
      claimed.push(...next.claimed)
      if (next.opens !== undefined) opens = Math.min(opens ?? next.opens, next.opens)
    }
    for (const shard of this.#shards.keys()) this.#given.delete(`${shard} ${token}`)
    return { settled: [], claimed, opens }
  }

  /** A shard that has answered is not asked again for the same claim. */
  async #claimFrom(
    shard: number,
    room: Room,
    { worker, claim, rescue }: ExchangeRequest,
    part: readonly Placed[],
    results: Results,
  ): Promise<ExchangeResult> {
    const store = this.#shards[shard] as ShardStore
    const name = `${shard} ${claim?.token}`
    const given = this.#given.get(name)
    if (given !== undefined && part.length === 0) return given
    const asked = given === undefined ? this.#asked(shard, claim as ClaimRequest, room) : undefined
    if (part.length === 0 && (asked === undefined || this.#isAway(shard))) return nothing
    const inner = {
      worker,
      settlements: part.map(({ settlement }) => settlement),
      claim: asked,
      ...(rescue && { rescue }),
    }
    const { settled, claimed, opens } = await store.exchange(inner)
    note(results, part, settled)
    // They were made for us.
    for (const job of claimed as readonly { token: string }[]) job.token = tokenAt(shard, job.token)
    const result = given ?? { settled: [], claimed, opens }
    this.#given.set(name, result)
    keepLatest(this.#given)
    return result
  }

  /** Jobs of the others can be had meanwhile. Where none can, whoever asks hears why. */
  #isAway(shard: number): boolean {
    return (this.#shards[shard] as ShardStore).isAway && !this.#shards.every((other) => other.isAway)
  }

  /** Queues with limits are claimed from at home only. A claim stays behind where all shards may use it at once. */
  #asked(shard: number, given: ClaimRequest, room: Room): ClaimRequest | undefined {
    const lasting = given.lasting === true && room.shared >= this.#shards.length * few
    const claim = { ...given, lasting }
    if (shard === 0) return { ...claim, room }
    const limited = [(this.#shards[0] as ShardStore).limited, (this.#shards[shard] as ShardStore).limited]
    const picks = claim.picks.filter(({ queue }) => !limited.some((queues) => queues.has(queue)))
    return picks.length === 0 ? undefined : { ...claim, room, picks }
  }

  #startOf({ token }: ClaimRequest): number {
    const known = this.#starts.get(token)
    if (known !== undefined) return known
    const start = this.announcing ?? this.#turn++ % this.#shards.length
    this.#starts.set(token, start)
    keepLatest(this.#starts)
    return start
  }

  /** By the shard of their jobs; without those that an earlier try has settled. */
  #partsOf(settlements: readonly Settlement[], results: Results): Map<number, Placed[]> {
    const parts = new Map<number, Placed[]>()
    settlements.forEach((settlement, at) => {
      if (results[at] !== undefined) return
      const [shard, token] = tokenParts(settlement.token, this.#shards.length)
      const part = parts.get(shard)
      const placed = { settlement: { ...settlement, token }, at }
      if (part === undefined) parts.set(shard, [placed])
      else part.push(placed)
    })
    return parts
  }

  #remember(settlements: readonly Settlement[], results: Results): void {
    settlements.forEach(({ token }, i) => {
      if (results[i] !== undefined) this.#settled.set(token, results[i])
    })
    keepLatest(this.#settled)
  }

  #settledBefore(token: string): SettleResult | undefined {
    if (this.#settled.size === 0) return undefined
    const result = this.#settled.get(token)
    this.#settled.delete(token)
    return result
  }
}

/** As its shard knows it, and which it is in the request. */
interface Placed {
  readonly settlement: Settlement
  readonly at: number
}

type Results = (SettleResult | undefined)[]

function note(results: Results, part: readonly Placed[], settled: readonly SettleResult[]): void {
  part.forEach(({ at }, i) => {
    results[at] = settled[i]
  })
}

const nothing: ExchangeResult = { settled: [], claimed: [], opens: undefined }

function sizeOf({ shared, own }: Room): number {
  return own.reduce((sum, slots) => sum + slots, shared)
}

/** As `takeByPicks` counts: a lane uses its own slots first. */
function roomAfter({ shared, own }: Room, claimed: readonly ClaimedJob[]): Room {
  const left = [...own]
  let rest = shared
  for (const { lane } of claimed) {
    if ((left[lane] ?? 0) > 0) left[lane] = (left[lane] as number) - 1
    else rest--
  }
  return { shared: Math.max(0, rest), own: left }
}
