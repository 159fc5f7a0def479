import type { LeasedJob } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'
import type { Homecoming } from './homecoming.js'
import { partOf, tokenAt, tokenParts } from './placing.js'

/**
 * Which running jobs of this process came home, or are on their way: their workers know them by the tokens of before. Whoever has
 * to do with one that is on its way waits until it has arrived.
 */
export class Moves {
  readonly #shards: readonly ShardStore[]
  readonly #homecoming: Homecoming
  /** Tokens at home, by those that the workers have. */
  readonly #arrived = new Map<string, string>()
  /** The other way round. */
  readonly #origins = new Map<string, string>()
  readonly #underWay = new Map<string, { readonly id: string; readonly over: Promise<unknown> }>()

  constructor(shards: readonly ShardStore[], homecoming: Homecoming) {
    this.#shards = shards
    this.#homecoming = homecoming
  }

  /** Jobs that a worker runs, or ran. Over when none of them is on its way any more. */
  async bringHome(worker: string, jobs: readonly LeasedJob[], rescue = false): Promise<void> {
    const shardIn = ({ token }: LeasedJob) => tokenParts(token, this.#shards.length)[0]
    const away = this.#notYet(jobs).filter((job) => shardIn(job) > 0)
    await Promise.all(
      [...new Set(away.map(shardIn))].map((shard) => {
        const part = away.filter((job) => shardIn(job) === shard)
        return this.#begin(part, this.#bring(shard, worker, part, rescue))
      }),
    )
    await this.over(jobs)
  }

  /** Those that nobody has begun to move. */
  #notYet<T extends LeasedJob>(jobs: readonly T[]): T[] {
    return jobs.filter(({ token }) => !this.#arrived.has(token) && !this.#underWay.has(token))
  }

  /** They are on their way until `move` is over, which tells the tokens at home. */
  async #begin(jobs: readonly LeasedJob[], move: Promise<ReadonlyMap<string, string>>): Promise<void> {
    const over = move.catch(() => {})
    for (const { id, token } of jobs) this.#underWay.set(token, { id, over })
    try {
      for (const [token, there] of await move) {
        this.#arrived.set(token, there)
        this.#origins.set(there, token)
      }
      keepLatest(this.#arrived)
      keepLatest(this.#origins)
    } finally {
      for (const { token } of jobs) this.#underWay.delete(token)
    }
  }

  async #bring(
    shard: number,
    worker: string,
    jobs: readonly LeasedJob[],
    rescue: boolean,
  ): Promise<Map<string, string>> {
    const annex = this.#shards[shard] as ShardStore
    const tokens = await this.#homecoming.held(
      annex,
      worker,
      partOf(shard, jobs, this.#shards.length),
      rescue,
    )
    return new Map([...tokens].map(([token, there]) => [tokenAt(shard, token), tokenAt(0, there)]))
  }

  /** None of them is on its way any more. Undefined where nobody has to wait for that: what comes next may go out at once. */
  over(jobs: readonly LeasedJob[]): Promise<unknown> | undefined {
    const moves = new Set(jobs.flatMap(({ token }) => this.#underWay.get(token)?.over ?? []))
    return moves.size === 0 ? undefined : Promise.all(moves)
  }

  /** As home knows it, if it is there. */
  atHome<T extends LeasedJob>(job: T): T {
    const token = this.#arrived.get(job.token)
    return token === undefined ? job : { ...job, token }
  }

  hasBegun({ token }: LeasedJob): boolean {
    return this.#arrived.has(token) || this.#underWay.has(token)
  }

  /** As its worker knows it. */
  asBefore<T extends LeasedJob>(job: T): T {
    const token = this.#origins.get(job.token)
    return token === undefined ? job : { ...job, token }
  }

  isUnderWay(id: string): boolean {
    for (const move of this.#underWay.values()) if (move.id === id) return true
    return false
  }

  forget({ token }: LeasedJob): void {
    const there = this.#arrived.get(token)
    if (there === undefined) return
    this.#arrived.delete(token)
    this.#origins.delete(there)
  }
}

/** What is asked again is asked soon. */
const mostKept = 10_000

export function keepLatest(kept: Map<string, unknown>): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= mostKept) return
    kept.delete(oldest)
  }
}
