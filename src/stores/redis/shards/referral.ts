/**
 * Limits are minded at home. So whatever queue or definition has some there, the annexes are told: they take no jobs of it, hand
 * none out, and those that wait come home.
 */
import { readQueues } from '../queue-flags.js'
import type { ShardStore } from '../shard-store.js'

export class Referral {
  readonly #home: ShardStore
  readonly #annexes: readonly ShardStore[]
  #told = ''

  constructor([home, ...annexes]: readonly ShardStore[]) {
    this.#home = home as ShardStore
    this.#annexes = annexes
  }

  /** Whether the annexes did not know. */
  async refer(): Promise<boolean> {
    const [pairs, jobs] = await Promise.all([
      this.#home.ask<readonly string[]>('all', 'queues'),
      this.#home.ask<readonly string[]>('members', 'limited'),
    ])
    const limited = readQueues(pairs).filter(({ traffic }) => traffic)
    const queues = limited.map(({ name }) => name)
    const news = JSON.stringify([queues.toSorted(), jobs.toSorted()])
    if (news === this.#told || queues.length + jobs.length === 0) return false
    await Promise.all(this.#annexes.map((annex) => tell(annex, queues, jobs)))
    this.#told = news
    return true
  }
}

function tell(annex: ShardStore, queues: readonly string[], jobs: readonly string[]): Promise<void> {
  return annex.work(
    ({ kinds }) => {
      for (const queue of queues) kinds.queue(queue).traffic = true
      for (const job of jobs) kinds.concern(job)
    },
    {
      also: (_, deeds) => {
        if (jobs.length > 0) deeds.call('SADD', 'limited', ...jobs)
      },
    },
  )
}
