import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { ClaimRequest, ExchangeRequest } from '../../core/store.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { leaseToken } from '../ledger/token.js'
import { separator } from '../page/separator.js'
import { areAlike } from './alike.js'
import { newlyClaimed } from './claimed.js'
import { inSchema } from './in-schema.js'
import type { Names } from './names.js'

/** Gives jobs to a worker that waits for some as they come in: they are never ready, and cost it no claim. */
export class HandOver {
  readonly #connection: Connection
  readonly #names: Names
  readonly #now: () => number | null
  readonly #text: string

  constructor(connection: Connection, names: Names, schema: string, now: () => number | null) {
    this.#connection = connection
    this.#names = names
    this.#now = now
    this.#text = inSchema(
      'SELECT * FROM {schema}.hand_over_{set}($1, $2, $3, $4, $5, $6, $7, $8, $9)',
      schema,
    )
  }

  /** Whether they are all alike, with nothing but an input, and it has room for all of them. */
  takes(jobs: readonly NewJob[], { room, picks }: ClaimRequest): boolean {
    const [first] = jobs
    if (first === undefined || jobs.length > room.shared + (room.own[first.lane] ?? 0)) return false
    if (!picks.some(({ queue, lane }) => queue === first.queue && lane === first.lane)) return false
    return areAlike(jobs)
  }

  /** Rejects with 23505 or MR001 when nothing was done. */
  async hand(
    jobs: readonly NewJob[],
    { worker }: ExchangeRequest,
    claim: ClaimRequest,
  ): Promise<ClaimedJob[]> {
    const [first] = jobs as [NewJob]
    const kind = await this.#names.kind(first)
    const lines: number[] = []
    for (const { queue, lane } of claim.picks) lines.push(await this.#names.queue(queue), lane)
    const { rows } = await this.#connection.query<{ at: number; first: number }>({ text: this.#text }, [
      this.#now(),
      kind,
      [first.maxAttempts, first.maxCrashes],
      jobs.map(({ id }) => id).join(separator),
      jobs.map(({ input }) => input).join(separator),
      worker,
      claim.token,
      claim.lease,
      lines,
    ])
    const told = rows[0] as { at: number; first: number }
    return jobs.map(({ id, input, maxAttempts, maxCrashes }, i) => ({
      ...newlyClaimed(first, told.at),
      id,
      token: leaseToken(id, told.first + i, kind, claim.token),
      input,
      maxAttempts,
      maxCrashes,
      createdAt: told.at,
      readyAt: told.at,
    }))
  }
}
