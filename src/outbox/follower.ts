/**
 * Hands on rows as the database tells of them. What was there before is claimed first; then nobody looks for rows any more.
 * At the first sign of trouble, with the target, with a row or with the stream, it lets go: relays that poll, which wait all
 * the time for the slots that it holds, go on, with all that they know of failures; it comes back when that is over.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Health } from './health.js'
import type { RelayEvents } from './relay.js'
import {
  type Claim,
  type Following,
  mostCounted,
  type OutboxFigures,
  type Row,
  type Verdict,
} from './store.js'
import type { Delivery, Target } from './target.js'

export interface FollowerParts {
  readonly target: Target
  readonly health: Health
  readonly maxLag: number
  readonly follow: () => Promise<Following | undefined>
  readonly figures: () => Promise<OutboxFigures>
  /** Hands on what is claimed, and tells what went wrong. */
  readonly claimed: (claim: () => Promise<Claim>) => Promise<readonly Row[]>
  readonly ask: (rows: readonly Row[]) => Promise<readonly Delivery[]>
  readonly judge: (rows: readonly Row[], deliveries: readonly Delivery[]) => readonly Verdict[]
  readonly emit: <E extends keyof RelayEvents>(event: E, told: RelayEvents[E]) => void
}

export class Follower {
  readonly #parts: FollowerParts
  isFollowing = false
  /** Bytes that the server keeps, as of the last look. */
  lag = 0
  #lookedAt = 0

  constructor(parts: FollowerParts) {
    this.#parts = parts
  }

  async run(stopping: AbortSignal): Promise<void> {
    let failures = 0
    while (!stopping.aborted) {
      let following: Following | undefined
      try {
        following = await this.#begin()
        if (following !== undefined && (await this.#catchUp(following, stopping)))
          await this.#follow(following, stopping)
        failures = 0
      } catch (error) {
        failures = this.isFollowing ? 0 : failures + 1
        if (!stopping.aborted) this.#parts.emit('error', { error, during: 'outbox: replication' })
      }
      this.#ends()
      await following?.close().catch(() => {})
      await sleep(Math.min(longestRestMs, restMs * 2 ** failures), undefined, { signal: stopping }).catch(
        () => {},
      )
    }
  }

  /** Those who poll know of rows that wait for their time, and are better at a backlog: there are more of them. */
  async #begin(): Promise<Following | undefined> {
    const { figures, follow, target } = this.#parts
    const { waiting, held } = await figures()
    const isForThosePolling = waiting[target.kind] >= mostCounted || held[target.kind] > 0
    return isForThosePolling ? undefined : follow()
  }

  /** What was there before the stream began. False when something waits for its time, which only those who poll know. */
  async #catchUp(following: Following, stopping: AbortSignal): Promise<boolean> {
    const { health, claimed, figures, target } = this.#parts
    while (!stopping.aborted) {
      const rows = await claimed(() => following.claim(health.limit))
      if (health.failures > 0) return false
      if (rows.length === 0) return (await figures()).held[target.kind] === 0
    }
    return false
  }

  /** Until something goes wrong. A batch is written down while the next one is handed on. */
  async #follow(following: Following, stopping: AbortSignal): Promise<void> {
    const { target, health, ask, judge, emit } = this.#parts
    this.isFollowing = true
    emit('following', { kind: target.kind, on: true })
    let settling: Promise<void> = Promise.resolve()
    while (!stopping.aborted) {
      const rows = await following.next(health.limit, tickMs)
      if (rows.length > 0) {
        const verdicts = judge(rows, await ask(rows))
        const done = rows.filter((_, i) => verdicts[i]?.do === 'done')
        await settling
        settling = following.settle(done)
        settling.catch(() => {}) // the next round hears of it
        if (done.length > 0) emit('relayed', { kind: target.kind, count: done.length })
        if (done.length < rows.length) break
        health.worked()
      }
      await this.#look(following)
    }
    await settling
  }

  /** Now and then: has it fallen behind, or missed something? */
  async #look(following: Following): Promise<void> {
    const now = performance.now()
    if (now - this.#lookedAt < lookMs) return
    this.#lookedAt = now
    this.lag = await following.lag()
    if (this.lag > this.#parts.maxLag)
      throw new Error(
        `the server keeps ${this.lag} bytes of its log for this relay, more than maxLag, which is ${this.#parts.maxLag}; it polls for a while`,
      )
    if (await following.isLate(lateMs))
      throw new Error(
        `a row has been there for more than ${lateMs / 1000} s and was not told of; it is looked for`,
      )
  }

  #ends(): void {
    if (this.isFollowing) this.#parts.emit('following', { kind: this.#parts.target.kind, on: false })
    this.isFollowing = false
    this.lag = 0
  }
}

/** How long a round takes when nothing comes. */
const tickMs = 250
const lookMs = 5_000
const lateMs = 15_000
/** Those who poll have so long before it takes the slots again. */
const restMs = 2_000
const longestRestMs = 60_000
