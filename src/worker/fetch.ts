import { bounds } from '../core/bounds.js'
import type { ClaimedJob } from '../core/job.js'
import { type LanePolicy, laneCount, planPicks, roomFor } from '../core/lanes.js'
import type { ClaimRequest } from '../core/store.js'
import { newToken } from '../system/ids.js'

export interface FetchOptions {
  readonly concurrency: number
  readonly queues: readonly string[]
  readonly lanes: LanePolicy
  readonly lease: number
  /** The most jobs to hold beyond the slots; chosen by how fast jobs run when `auto`. */
  readonly prefetch: number | 'auto'
}

/** A batch that is used up faster than this asks for a larger one, slower than that for a smaller one. */
const fastMs = 10
const slowMs = 50

/** Decides how many jobs to ask for. Pure but for the tokens: it knows no store and no clock. */
export class Fetcher {
  readonly #options: FetchOptions
  #prefetch: number
  #turn = 0
  #claim = 0
  #asked = 0
  #lastFull = false
  #lastAt = 0
  /** One job at a time, because the last claim brought one that must run alone. */
  #careful = false

  constructor(options: FetchOptions) {
    this.#options = options
    this.#prefetch = options.prefetch === 'auto' ? 0 : options.prefetch
  }

  /** What to claim now, or undefined when there is no room. */
  plan(active: readonly number[], waiting: number, now: number): ClaimRequest | undefined {
    const { concurrency, lanes, queues, lease } = this.#options
    const busy = active.reduce((sum, n) => sum + n, 0)
    const reserves = lanes.reserved.some((slots) => slots > 0)
    // Reserved slots count jobs in slots; jobs held beyond them would blur the count.
    const prefetch = reserves ? 0 : this.#prefetch
    const free = Math.min(bounds.batch, concurrency + prefetch - busy - waiting)
    if (free <= 0 || (this.#careful && busy + waiting > 0)) return undefined
    if (waiting === 0) this.#adapt(now)
    const room = this.#careful ? { shared: 1, own: noOwn } : roomFor(free, lanes, active)
    this.#asked = room.own.reduce((sum, n) => sum + n, room.shared)
    this.#lastAt = now
    return {
      token: newToken(),
      lease,
      room,
      picks: planPicks(room, lanes, queues, { turn: this.#turn, claim: this.#claim++ }),
      turn: this.#turn,
    }
  }

  /** Learns from what came back. Returns false when the queues seem to be empty. */
  learn(claimed: readonly ClaimedJob[], mustRunAlone: boolean): boolean {
    this.#turn += claimed.length
    this.#lastFull = claimed.length >= this.#asked
    if (claimed.length > 0) this.#careful = mustRunAlone
    return this.#lastFull
  }

  #adapt(now: number): void {
    if (this.#options.prefetch !== 'auto' || this.#lastAt === 0) return
    const took = now - this.#lastAt
    if (this.#lastFull && took < fastMs) {
      this.#prefetch = Math.min(bounds.prefetch, Math.max(this.#prefetch * 2, this.#options.concurrency))
    } else if (took > slowMs) {
      this.#prefetch = Math.floor(this.#prefetch / 2)
    }
  }
}

const noOwn = new Array<number>(laneCount).fill(0)
