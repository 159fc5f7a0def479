import { bounds } from '../core/bounds.js'
import type { ClaimedJob } from '../core/job.js'
import { type LanePolicy, laneCount, planPicks, roomFor } from '../core/lanes.js'
import type { ClaimRequest } from '../core/store.js'
import { newToken } from '../system/ids.js'

export interface FetchOptions {
  readonly concurrency: number
  readonly queues: readonly string[]
  /** Definitions that the worker has. */
  readonly known: ReadonlySet<string>
  readonly lanes: LanePolicy
  readonly lease: number
  /** The most jobs to hold beyond the slots; chosen by how fast jobs run when `auto`. */
  readonly prefetch: number | 'auto'
}

/** What a worker holds that has not started. */
export interface Unstarted {
  /** Jobs that wait for a slot of their own. */
  readonly waiting: number
  /** Jobs in batches. */
  readonly collected: number
  /** Those in batches that are full. */
  readonly complete: number
  /** Jobs that the other batches could still take. */
  readonly lacking: number
}

/** A claim that is used up faster than this asks for a larger one, slower than that for a smaller one. */
const fastMs = 20
const slowMs = 100

/** Decides how many jobs to ask for. Pure but for the tokens: it knows no store and no clock. */
export class Fetcher {
  readonly #options: FetchOptions
  #prefetch: number
  /** Reserved slots count jobs in slots; jobs held beyond them would blur the count. */
  readonly #reserves: boolean
  /** Jobs that a slot takes, on average over the last claims: more than one where jobs run in batches. */
  #width = 1
  #turn = 0
  #claim = 0
  #lastFull = false
  #lastClaimed = 0
  #lastAt = 0
  /** One job at a time, because the last claim brought one that must run alone. */
  #careful = false

  constructor(options: FetchOptions) {
    this.#options = options
    this.#prefetch = options.prefetch === 'auto' ? 0 : options.prefetch
    this.#reserves = options.lanes.reserved.some((slots) => slots > 0)
  }

  /** What to claim now, or undefined when there is no room. `coming`: jobs that other claims on their way may bring. */
  plan(active: readonly number[], unstarted: Unstarted, now: number, coming = 0): ClaimRequest | undefined {
    const { concurrency, lanes, queues, lease, known } = this.#options
    const { waiting, collected } = unstarted
    const busy = count(active)
    const slots = concurrency - busy - waiting - coming
    const free = Math.min(bounds.batch, slots + this.#beyond(slots, unstarted))
    if (free <= 0 || (this.#careful && busy + waiting + coming > 0)) return undefined
    // Nobody knows yet what they will be.
    if (coming > 0 && (this.#reserves || collected > 0 || this.#width > 1)) return undefined
    // Claims that fill a batch follow each other fast and say nothing about how fast jobs are used up.
    if (collected === 0 && 2 * waiting <= this.#lastClaimed) this.#adapt(now)
    const room = this.#careful ? { shared: 1, own: noOwn } : roomFor(free, lanes, active)
    this.#lastAt = now
    return {
      token: newToken(),
      lease,
      room,
      picks: planPicks(room, lanes, queues, { turn: this.#turn, claim: this.#claim++ }),
      turn: this.#turn,
      lasting: !this.#careful && !this.#reserves,
      known,
    }
  }

  /** Learns from what came back. Returns false when the queues seem to be empty. */
  learn(asked: number, claimed: readonly ClaimedJob[], mustRunAlone: boolean, width: number): boolean {
    if (claimed.length > 0) this.#width = this.#turn === 0 ? width : (this.#width + width) / 2
    this.#turn += claimed.length
    this.#lastFull = claimed.length >= asked
    this.#lastClaimed = claimed.length
    if (claimed.length > 0) this.#careful = mustRunAlone
    return this.#lastFull
  }

  /** Whether a job of this lane may start: a slot that another lane has reserved stays free for it. */
  hasSlot(active: readonly number[], lane: number): boolean {
    if (!this.#reserves) return true
    const { concurrency, lanes } = this.#options
    const room = roomFor(concurrency - count(active), lanes, active)
    return room.shared + (room.own[lane] ?? 0) > 0
  }

  /**
   * Room beyond the slots. A batch takes more jobs than slots: what the open ones lack is asked for or, when
   * none is open and a slot is free, what a new one would take. No more than `#width` of it at a time, which
   * is small when few of the jobs run in batches: the others come along and wait as prefetched ones do.
   */
  #beyond(slots: number, { collected, complete, lacking }: Unstarted): number {
    if (this.#reserves) return 0
    const share = Math.floor(this.#width) - 1
    const forOpen = Math.min(lacking, Math.max(1, share))
    const forBatches = lacking > 0 || slots <= 0 ? forOpen : share
    return Math.min(this.#prefetch + forBatches - complete, bounds.collected - collected)
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

/** How many jobs a claim may bring. */
export function sizeOf({ room }: ClaimRequest): number {
  return count(room.own) + room.shared
}

function count(active: readonly number[]): number {
  return active.reduce((sum, n) => sum + n, 0)
}

const noOwn = new Array<number>(laneCount).fill(0)
