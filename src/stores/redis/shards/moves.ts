import type { LeasedJob } from '../../../core/store.js'

/**
 * Which running jobs of this process came home, or are on their way: their workers know them by the tokens of before. Whoever has
 * to do with one that is on its way waits until it has arrived.
 */
export class Moves {
  /** Tokens at home, by those that the workers have. */
  readonly #arrived = new Map<string, string>()
  /** The other way round. */
  readonly #origins = new Map<string, string>()
  readonly #underWay = new Map<string, { readonly id: string; readonly over: Promise<unknown> }>()

  /** Those that nobody has begun to move. */
  notYet<T extends LeasedJob>(jobs: readonly T[]): T[] {
    return jobs.filter(({ token }) => !this.#arrived.has(token) && !this.#underWay.has(token))
  }

  /** They are on their way until `move` is over, which tells the tokens at home. */
  async begin(jobs: readonly LeasedJob[], move: Promise<ReadonlyMap<string, string>>): Promise<void> {
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
