import type { ClaimedJob } from '../../core/job.js'
import type { ClaimRequest, ExchangeRequest, ExchangeResult } from '../../core/store.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { bind, type Value } from '../../databases/postgres/literal.js'
import { leaseToken } from '../ledger/token.js'
import { newlyClaimed } from './claimed.js'
import { type Ends, endsOf, isPlainEnd, settledBy } from './ends.js'
import { inSchema } from './in-schema.js'
import type { Script } from './insert.js'
import type { KindName, Names } from './names.js'
import { type Told, ToldJobs } from './told.js'

/** What exchange.sql answers. */
interface Answer extends Told {
  readonly at: number
  readonly lost: string | null
}

/** Settles and claims plain jobs in one statement. */
export class Exchanger {
  readonly #connection: Connection
  readonly #names: Names
  readonly #now: () => number | null
  readonly #text: string
  readonly #hints = new Map<string, number>()
  #hintsAt = 0

  constructor(connection: Connection, names: Names, schema: string, now: () => number | null) {
    this.#connection = connection
    this.#names = names
    this.#now = now
    this.#text = inSchema(
      'SELECT * FROM {schema}.exchange_{set}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, false)',
      schema,
    )
  }

  /** Whether all of it is plain, as far as can be seen from here. */
  takes({ settlements, claim, rescue }: ExchangeRequest): boolean {
    if (rescue === true) return false
    if (claim?.picks.some(({ queue }) => this.#names.limited.has(queue))) return false
    return settlements.every(isPlainEnd)
  }

  /** Jobs that came back stand before those that were looked at. */
  ready(queues: Iterable<string>): void {
    for (const queue of queues)
      for (const name of this.#hints.keys()) if (name.endsWith(` ${queue}`)) this.#hints.delete(name)
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeResult> {
    const ends = endsOf(request.settlements)
    const values = await this.#values(request, ends)
    const { rows } = await this.#connection.query<Answer>({ text: this.#text }, values)
    return this.#concluded(request, ends, rows[0] as Answer)
  }

  /** The same as a script. */
  async asScript(request: ExchangeRequest): Promise<Script<ExchangeResult>> {
    const ends = endsOf(request.settlements)
    return {
      text: bind(this.#text, (await this.#values(request, ends)) as Value[]),
      conclude: (rows) => this.#concluded(request, ends, rows[0] as Answer),
    }
  }

  async #values({ worker, claim }: ExchangeRequest, ends: Ends): Promise<unknown[]> {
    const picks = claim === undefined ? null : await this.#picks(claim)
    return [
      this.#now(),
      worker,
      ends.tokens.length === 0 ? null : ends.tokens,
      ends.kinds.length === 0 ? null : ends.kinds,
      ends.settled.length === 0 ? null : ends.settled,
      ends.results,
      null,
      claim?.token ?? null,
      claim?.lease ?? null,
      claim === undefined ? null : [claim.room.shared, ...claim.room.own],
      picks,
    ]
  }

  async #concluded({ claim }: ExchangeRequest, ends: Ends, answer: Answer): Promise<ExchangeResult> {
    const settled = settledBy(ends, answer.lost)
    const claimed = claim === undefined ? [] : await this.#claimed(answer, claim)
    if (claim !== undefined) this.#learn(claim, claimed)
    return { settled, claimed, opens: undefined }
  }

  async #picks({ picks }: ClaimRequest): Promise<number[]> {
    const now = performance.now()
    if (now - this.#hintsAt > hintMs) {
      this.#hints.clear()
      this.#hintsAt = now
    }
    const numbers: number[] = []
    for (const { queue, lane, take } of picks)
      numbers.push(await this.#names.queue(queue), lane, take, this.#hints.get(`${lane} ${queue}`) ?? 0)
    return numbers
  }

  /** Where the next claim begins to look: behind what this one took, unless it found less than it wanted. */
  #learn({ room, picks }: ClaimRequest, claimed: readonly ClaimedJob[]): void {
    const wanted = room.own.reduce((sum, slots) => sum + slots, room.shared)
    if (claimed.length < wanted) {
      for (const { queue, lane } of picks) this.#hints.delete(`${lane} ${queue}`)
      return
    }
    for (const { lane, queue, token } of claimed) {
      const seq = Number(token.slice(0, token.indexOf('.')))
      const name = `${lane} ${queue}`
      if (seq > (this.#hints.get(name) ?? 0)) this.#hints.set(name, seq)
    }
  }

  async #claimed(answer: Answer, { token: claim }: ClaimRequest): Promise<ClaimedJob[]> {
    const jobs = new ToldJobs(answer)
    const names = new Map<number, KindName>()
    for (const kind of new Set(jobs.kinds)) names.set(kind, await this.#names.ofNum(kind))
    return jobs.seqs.map((seq, i) => {
      const kind = jobs.kind(i)
      const job = newlyClaimed(names.get(kind) as KindName, answer.at)
      jobs.tell(i, job, leaseToken(jobs.id(i), seq, kind, claim))
      return job
    })
  }
}

/** So long a job that comes back in another process may wait behind a long line. */
const hintMs = 250
