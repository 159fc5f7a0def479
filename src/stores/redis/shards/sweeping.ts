/** Sweeps all shards, and does what home and annexes have to do with each other. */
import type { SweepReport, SweepRequest } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import type { Homecoming } from './homecoming.js'
import { tokenAt } from './placing.js'
import { Referral } from './referral.js'
import { mergeSweeps, shareOfKept } from './reports.js'

/** Another process may have failed before it did what it began: so often it is looked for, by the number of shards. */
const thoroughMs = { each: 5_000, most: 60_000 } as const

export class Sweeping {
  readonly #shards: readonly ShardStore[]
  readonly #homecoming: Homecoming
  readonly #referral: Referral
  /** How many finished jobs each may keep. */
  #keep: readonly SweepRequest['keep'][] = []
  #thoroughAt = 0
  /** Annexes on which jobs wait that have to come home. */
  #restless: Set<ShardStore> = new Set()

  constructor(shards: readonly ShardStore[], homecoming: Homecoming) {
    this.#shards = shards
    this.#homecoming = homecoming
    this.#referral = new Referral(shards)
  }

  /** Each shard does as much as is asked for. Where it is only now and then, so is what home and annexes have to do with each other. */
  async sweep(request: SweepRequest): Promise<SweepReport> {
    const isThorough = request.every === undefined || this.#isTime()
    if (isThorough) {
      await this.refer()
      this.#keep = await shareOfKept(this.#shards, request.keep)
      await this.#homecoming.forgetReceipts(this.#shards)
    }
    const reports = await Promise.all(
      this.#shards.map(async (shard, i) => {
        const report = await shard.sweep({ ...request, keep: this.#keep[i] ?? request.keep })
        const isOpen = i > 0 && (isThorough || report.promoted > 0 || this.#restless.has(shard))
        const more = isOpen && (await this.#sweepHome(shard, request.limit))
        const orphans = report.orphans.map((orphan) => ({ ...orphan, token: tokenAt(i, orphan.token) }))
        return { ...report, orphans, more: report.more || more }
      }),
    )
    return mergeSweeps(reports)
  }

  async #sweepHome(annex: ShardStore, limit: number): Promise<boolean> {
    const more = await this.#homecoming.sweep(annex, limit)
    if (!more) this.#restless.delete(annex)
    return more
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
