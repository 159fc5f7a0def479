/** Sweeps all shards, and does what home and annexes have to do with each other. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SweepReport, SweepRequest } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import type { Homecoming } from './homecoming.js'
import { answersOf } from './patience.js'
import { tokenAt } from './placing.js'
import { Referral } from './referral.js'
import { mergeSweeps, shareOfKept } from './reports.js'

/** Another process may have failed before it did what it began: so often it is looked for, by the number of shards. */
const thoroughMs = { each: 5_000, most: 60_000 } as const

/** So long one shard is waited for when another has been swept; what it finds later the next sweep tells. */
const patienceMs = 5_000

export class Sweeping {
  readonly #shards: readonly ShardStore[]
  readonly #homecoming: Homecoming
  readonly #referral: Referral
  /** How many finished jobs each may keep. */
  #keep: readonly SweepRequest['keep'][] = []
  #thoroughAt = 0
  /** Annexes on which jobs wait that have to come home. */
  #restless: Set<ShardStore> = new Set()
  /** Shards whose sweep was not over in time: it is not begun again before, nor waited for. */
  readonly #late = new Set<ShardStore>()
  /** What came of such. */
  #told: PromiseSettledResult<SweepReport>[] = []
  #tidying: Promise<void> | undefined

  constructor(shards: readonly ShardStore[], homecoming: Homecoming) {
    this.#shards = shards
    this.#homecoming = homecoming
    this.#referral = new Referral(shards)
  }

  /**
   * Each shard does as much as is asked for. Where it is only now and then, so is what home and annexes have to do with each
   * other. What the others have found cannot wait for one that is away.
   */
  async sweep(request: SweepRequest): Promise<SweepReport> {
    const isThorough = request.every === undefined || this.#isTime()
    const failed: unknown[] = []
    if (isThorough) await this.#tidyInTime(request.keep).catch((error: unknown) => failed.push(error))
    const shards = this.#shards.filter((shard) => !this.#late.has(shard))
    const sweeps = shards.map((shard) => this.#sweepShard(shard, request, isThorough))
    const answers = await answersOf(sweeps, patienceMs)
    sweeps.forEach((sweep, i) => {
      if (answers[i] === undefined) void this.#follow(shards[i] as ShardStore, sweep)
    })
    const reports: SweepReport[] = []
    for (const answer of [...answers, ...this.#told]) {
      if (answer?.status === 'fulfilled') reports.push(answer.value)
      else if (answer !== undefined) failed.push(answer.reason)
    }
    this.#told = []
    if (reports.length === 0 && failed.length > 0) throw failed[0]
    return mergeSweeps(reports, failed)
  }

  async #follow(shard: ShardStore, late: Promise<SweepReport>): Promise<void> {
    this.#late.add(shard)
    const [told] = await Promise.allSettled([late])
    this.#late.delete(shard)
    this.#told.push(told)
  }

  /** What comes of it later the next ones use. They do not wait for it again. */
  async #tidyInTime(keep: SweepRequest['keep']): Promise<void> {
    if (this.#tidying !== undefined) return
    this.#tidying = this.#tidy(keep).finally(() => {
      this.#tidying = undefined
    })
    await Promise.race([this.#tidying, sleep(patienceMs, undefined, { ref: false })])
  }

  async #sweepShard(shard: ShardStore, request: SweepRequest, isThorough: boolean): Promise<SweepReport> {
    const i = this.#shards.indexOf(shard)
    const report = await shard.sweep({ ...request, keep: this.#keep[i] ?? request.keep })
    const isOpen = i > 0 && (isThorough || report.promoted > 0 || this.#restless.has(shard))
    const orphans = report.orphans.map((orphan) => ({ ...orphan, token: tokenAt(i, orphan.token) }))
    try {
      const more = isOpen && (await this.#sweepHome(shard, request.limit))
      return { ...report, orphans, more: report.more || more }
    } catch (error) {
      return { ...report, orphans, failed: [error] }
    }
  }

  async #sweepHome(annex: ShardStore, limit: number): Promise<boolean> {
    const more = await this.#homecoming.sweep(annex, limit)
    if (!more) this.#restless.delete(annex)
    return more
  }

  async #tidy(keep: SweepRequest['keep']): Promise<void> {
    await this.refer()
    this.#keep = await shareOfKept(this.#shards, keep)
    await this.#homecoming.forgetReceipts(this.#shards)
    await Promise.all(this.#shards.slice(1).map((annex) => annex.forgetMoved([])))
  }

  #isTime(): boolean {
    const now = performance.now()
    if (now < this.#thoroughAt) return false
    this.#thoroughAt = now + Math.min(thoroughMs.most, thoroughMs.each * this.#shards.length)
    return true
  }

  /** Tells the annexes of limits. Where they did not know, the next sweeps bring home what waits there. */
  async refer(): Promise<void> {
    if (await this.#referral.refer()) this.#restless = new Set(this.#shards.slice(1))
  }
}
