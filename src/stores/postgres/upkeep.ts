import type { SweepRequest } from '../../core/store.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { inSchema } from './in-schema.js'
import { fold, workers } from './sql.generated.js'

/** Milliseconds between two times that counts are added up. */
const foldEvery = 2_000

/** What a sweep does for the fast path, beside the desk. */
export class Upkeep {
  readonly #connection: Connection
  readonly #now: () => number | null
  readonly #prune: string
  readonly #turn: string
  readonly #fold: string
  readonly #workers: string
  #foldedAt = Number.NEGATIVE_INFINITY

  constructor(connection: Connection, schema: string, now: () => number | null) {
    this.#connection = connection
    this.#now = now
    this.#prune = inSchema('SELECT {schema}.prune_{set}($1, $2, $3) AS pruned', schema)
    this.#turn = inSchema(turn, schema)
    this.#fold = inSchema(fold, schema)
    this.#workers = inSchema(workers, schema)
  }

  /** Whether nobody else has swept for about this long; then others wait for this one. */
  async isTimeToSweep(every: number): Promise<boolean> {
    const { rowCount } = await this.#connection.query({ text: this.#turn }, [
      this.#now(),
      Math.floor(every * 0.8),
    ])
    return rowCount > 0
  }

  /** Returns how many jobs it has forgotten. */
  async sweep({ limit, keep }: SweepRequest): Promise<number> {
    await this.#foldNowAndThen()
    const { rows } = await this.#connection.query<{ pruned: number }>({ text: this.#prune }, [
      this.#now(),
      limit,
      keep.completed,
    ])
    return rows[0]?.pruned ?? 0
  }

  async #foldNowAndThen(): Promise<void> {
    const now = performance.now()
    if (now - this.#foldedAt < foldEvery) return
    this.#foldedAt = now
    await this.#connection.query({ text: this.#fold })
    await this.#connection.query({ text: this.#workers })
  }
}

const turn = `UPDATE {schema}.sweep s SET at = t.now
FROM (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) t
WHERE s.at NOT BETWEEN t.now - $2::bigint AND t.now`
