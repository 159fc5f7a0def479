/**
 * Backpressure: how many ready jobs a queue, or a lane of it, takes. With `reject` and `wait` there are two
 * marks: full at `max`, and then full until `low` is reached, so that a queue at its limit does not open and
 * close with every job. With `shed` the lanes give way one after the other, the low one first.
 */
import { laneCount } from '../lanes.js'

export interface DepthPolicy {
  /** Ready jobs of the queue. */
  readonly max: number
  readonly low: number
  /** The same for single lanes; null where a lane has no limit of its own. */
  readonly lanes: readonly (Mark | null)[]
  readonly overflow: 'reject' | 'wait' | 'shed'
  /** With `shed`: milliseconds that a job is put off; 0 drops it. */
  readonly defer: number
  /** With `shed`: how full the queue is, as a share of `max`, when a lane gives way. */
  readonly shedAt: readonly number[]
}

interface Mark {
  readonly max: number
  readonly low: number
}

/** Why a job was not taken. */
export interface Overflow {
  readonly depth: number
  readonly limit: number
  /** The caller is to wait rather than to fail. */
  readonly wait: boolean
}

export type Admission = { readonly verdict: 'take' } | ({ readonly verdict: 'shed' | 'full' } & Overflow)

const queueBit = 1 << laneCount
const take: Admission = { verdict: 'take' }

/** Decides for the jobs of one insert, one after the other. */
export class Doorkeeper {
  readonly policy: DepthPolicy
  /** Which marks were reached and not yet left: one bit for each lane, one for the queue. */
  full: number
  readonly #lanes: number[]
  #depth: number

  /** `lanes`: ready jobs by lane. */
  constructor(policy: DepthPolicy, full: number, lanes: readonly number[]) {
    this.policy = policy
    this.full = full
    this.#lanes = Array.from({ length: laneCount }, (_, lane) => lanes[lane] ?? 0)
    this.#depth = this.#lanes.reduce((sum, n) => sum + n, 0)
  }

  /** Whether one more ready job of the lane may come in; counts it if it may. */
  admit(lane: number): Admission {
    const admission = this.policy.overflow === 'shed' ? this.#shed(lane) : this.#twoMarks(lane)
    if (admission.verdict === 'take') this.came(lane)
    return admission
  }

  /** A ready job came in without being asked, in the place of another. */
  came(lane: number): void {
    this.#count(lane, 1)
  }

  left(lane: number): void {
    this.#count(lane, -1)
  }

  #count(lane: number, change: number): void {
    this.#depth += change
    this.#lanes[lane] = (this.#lanes[lane] as number) + change
  }

  #shed(lane: number): Admission {
    const { max, lanes, shedAt } = this.policy
    const own = lanes[lane]
    const ownDepth = this.#lanes[lane] as number
    if (own && ownDepth >= own.max) return this.#refusal(ownDepth, own.max, 'shed')
    if (this.#depth < max * (shedAt[lane] as number)) return take
    // The most urgent lane is never given up silently.
    return this.#refusal(this.#depth, max, lane === 0 ? 'full' : 'shed')
  }

  #twoMarks(lane: number): Admission {
    const own = this.policy.lanes[lane]
    const ownDepth = this.#lanes[lane] as number
    if (own && this.#isFull(1 << lane, ownDepth, own)) return this.#refusal(ownDepth, own.max)
    if (this.#isFull(queueBit, this.#depth, this.policy)) return this.#refusal(this.#depth, this.policy.max)
    return take
  }

  #isFull(bit: number, depth: number, { max, low }: Mark): boolean {
    const wasFull = (this.full & bit) !== 0
    const isFull = wasFull ? depth > low : depth >= max
    if (isFull !== wasFull) this.full ^= bit
    return isFull
  }

  #refusal(depth: number, limit: number, verdict: 'shed' | 'full' = 'full'): Admission {
    return { verdict, depth, limit, wait: this.policy.overflow === 'wait' }
  }
}
