/** Finds jobs, wherever they are, and counts them. */
import { bounds } from '../../../core/bounds.js'
import type { JobRecord, JobTrail } from '../../../core/job.js'
import type { Cause, Counts, JobPage, JobQuery } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import type { Homecoming } from './homecoming.js'
import { mergeCauses, mergeCounts, mergeList } from './merging.js'
import { homeLast, shardOf } from './placing.js'

export class Finding {
  readonly #home: ShardStore
  readonly #shards: readonly ShardStore[]
  readonly #homecoming: Homecoming

  constructor(shards: readonly ShardStore[], homecoming: Homecoming) {
    this.#home = shards[0] as ShardStore
    this.#shards = shards
    this.#homecoming = homecoming
  }

  async get(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    const found = new Map<string, JobRecord>()
    await Promise.all(
      this.#shards.map(async (shard, i) => {
        const part = ids.filter((id) => i > 0 && shardOf(id, this.#shards.length) === i)
        if (part.length === 0) return
        for (const record of await shard.get(part)) if (record !== undefined) found.set(record.id, record)
      }),
    )
    const rest = ids.filter((id) => !found.has(id))
    if (rest.length > 0)
      for (const record of await this.#home.get(rest)) if (record !== undefined) found.set(record.id, record)
    const arrived = await this.#homecoming.finish(
      this.#shards,
      rest.filter((id) => !found.has(id)),
    )
    if (arrived.length > 0)
      for (const record of await this.#home.get(arrived))
        if (record !== undefined) found.set(record.id, record)
    return ids.map((id) => found.get(id))
  }

  async trail(id: string): Promise<JobTrail | undefined> {
    const shard = this.#shards[shardOf(id, this.#shards.length)] as ShardStore
    const there = await shard.trail(id)
    if (there !== undefined || shard === this.#home) return there
    const atHome = await this.#home.trail(id)
    if (atHome !== undefined || (await this.#homecoming.finish(this.#shards, [id])).length === 0)
      return atHome
    return this.#home.trail(id)
  }

  list(query: JobQuery): Promise<JobPage> {
    return mergeList(
      homeLast(this.#shards).map((shard) => (part: JobQuery) => shard.list(part)),
      query,
    )
  }

  async counts(): Promise<Counts> {
    return mergeCounts(await Promise.all(this.#shards.map((shard) => shard.counts())))
  }

  async causes(): Promise<Cause[]> {
    return mergeCauses(await Promise.all(this.#shards.map((shard) => shard.causes())), bounds.page)
  }
}
