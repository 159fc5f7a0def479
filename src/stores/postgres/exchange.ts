import type { ClaimedJob } from '../../core/job.js'
import type {
  ClaimRequest,
  ExchangeRequest,
  ExchangeResult,
  Settlement,
  SettleResult,
} from '../../core/store.js'
import { type Lease, leaseToken, readToken } from '../ledger/token.js'
import type { Connection } from './connection.js'
import { type Script, separator } from './insert.js'
import { bind, type Value } from './literal.js'
import type { Names } from './names.js'
import { inSchema } from './schema.js'

/** Between the results of runs. */
const groupSeparator = '\x1d'

/** Results of one run together; they are read as one text. */
const mostResultText = 256 * 1024

/** What exchange.sql answers. */
interface Answer {
  readonly at: number
  readonly lost: string | null
  readonly seqs: string | null
  readonly kinds: string
  readonly created: string
  readonly limits: string
  readonly ids: string
  readonly inputs: string
  readonly extras: string | null
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

  async #concluded(
    { settlements, claim }: ExchangeRequest,
    ends: Ends,
    answer: Answer,
  ): Promise<ExchangeResult> {
    const settled = settledBy(settlements, ends, answer.lost)
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

  async #claimed(answer: Answer, { token }: ClaimRequest): Promise<ClaimedJob[]> {
    if (answer.seqs === null) return []
    const seqs = answer.seqs.split(',').map(Number)
    const ids = answer.ids.split(separator)
    const inputs = answer.inputs.split(separator)
    const kinds = answer.kinds.split(',').map(Number)
    const created = answer.created.split(',').map(Number)
    const limits = answer.limits.split(',').map((pair) => pair.split(':').map(Number))
    const extras = readExtras(answer.extras)
    for (const kind of new Set(kinds)) await this.#names.ofNum(kind)
    const jobs: ClaimedJob[] = []
    for (let i = 0; i < seqs.length; i++) {
      const kind = (kinds.length === 1 ? kinds[0] : kinds[i]) as number
      const { queue, name, lane } = await this.#names.ofNum(kind)
      const createdAt = (created.length === 1 ? created[0] : created[i]) as number
      const [maxAttempts, maxCrashes] = (limits.length === 1 ? limits[0] : limits[i]) as [number, number]
      const id = ids[i] as string
      const extra = extras?.get(i)
      jobs.push({
        id,
        token: leaseToken(id, seqs[i] as number, kind, token),
        name,
        queue,
        lane,
        input: inputs[i] as string,
        attempt: (extra?.rest.attempt ?? 0) + 1,
        crashes: extra?.rest.crashes ?? 0,
        maxAttempts,
        maxCrashes,
        createdAt,
        readyAt: extra?.rest.readyAt ?? createdAt,
        startedAt: answer.at,
        retryDelay: extra?.rest.retryDelay ?? 0,
        overrides: extra?.overrides ?? undefined,
        tags: extra?.tags,
        metadata: extra?.metadata ?? undefined,
        group: undefined,
        key: undefined,
        suspect: false,
        family: undefined,
        guard: undefined,
        stepped: false,
        cancelReason: undefined,
      })
    }
    return jobs
  }
}

/** So long a job that comes back in another process may wait behind a long line. */
const hintMs = 250

interface Extra {
  readonly overrides: string | null
  readonly tags: readonly string[] | undefined
  readonly metadata: string | null
  readonly rest: { attempt?: number; crashes?: number; readyAt?: number; retryDelay?: number }
}

function readExtras(text: string | null): Map<number, Extra> | undefined {
  if (text === null) return undefined
  type Row = [number, string | null, string | null, string | null, string | null]
  return new Map(
    (JSON.parse(text) as Row[]).map(([i, overrides, tags, metadata, rest]) => [
      i,
      {
        overrides,
        tags: tags === null ? undefined : (JSON.parse(tags) as string[]),
        metadata,
        rest: JSON.parse(rest ?? '{}') as Extra['rest'],
      },
    ]),
  )
}

function isPlainEnd({ outcome, inserts, report }: Settlement): boolean {
  return (
    outcome.to === 'completed' &&
    !outcome.idle &&
    outcome.hold === 0 &&
    inserts === undefined &&
    report === undefined &&
    !(outcome.result?.includes(separator) || outcome.result?.includes(groupSeparator))
  )
}

/** Settlements as exchange.sql wants them. */
interface Ends {
  readonly tokens: readonly string[]
  readonly kinds: readonly number[]
  readonly settled: readonly number[]
  readonly results: string | null
  /** By settlement; undefined for a token that was made for another job. */
  readonly leases: readonly (Lease | undefined)[]
}

interface End {
  readonly lease: Lease
  readonly retain: number
  readonly result: string | undefined
}

function endsOf(settlements: readonly Settlement[]): Ends {
  const leases = settlements.map(({ id, token }) => readToken(id, token))
  const ends: End[] = []
  leases.forEach((lease, i) => {
    const { outcome } = settlements[i] as Settlement
    if (lease !== undefined) ends.push({ lease, retain: Math.round(outcome.retain), result: outcome.result })
  })
  const tokens = [...new Set(ends.map(({ lease }) => lease.claim))].sort()
  const of = new Map(tokens.map((token, i) => [token, i + 1]))
  const place = ({ lease }: End) => of.get(lease.claim) as number
  ends.sort((a, b) => place(a) - place(b) || a.lease.seq - b.lease.seq)
  return { tokens, kinds: [...new Set(ends.map(({ lease }) => lease.kind))], ...ranges(ends, place), leases }
}

/** Those that follow each other and end alike become one entry. */
function ranges(ends: readonly End[], place: (end: End) => number): Pick<Ends, 'settled' | 'results'> {
  const settled: number[] = []
  const groups: string[] = []
  let results: string[] = []
  let size = 0
  let last: End | undefined
  for (const end of ends) {
    const { lease, retain, result = '' } = end
    if (last !== undefined && last.lease.claim === lease.claim && last.lease.seq === lease.seq) continue
    const goesOn =
      last !== undefined &&
      last.lease.claim === lease.claim &&
      last.lease.seq === lease.seq - 1 &&
      last.retain === retain &&
      size + result.length <= mostResultText
    if (goesOn) settled[settled.length - 3] = lease.seq
    else {
      if (last !== undefined) groups.push(joined(results))
      results = []
      size = 0
      settled.push(place(end), lease.seq, lease.seq, completedOutcome, retain)
    }
    results.push(result)
    size += result.length
    last = end
  }
  if (last !== undefined) groups.push(joined(results))
  const has = groups.some((group) => group !== '')
  return { settled, results: has ? groups.join(groupSeparator) : null }
}

const completedOutcome = 5

function joined(results: readonly string[]): string {
  return results.some((result) => result !== '') ? results.join(separator) : ''
}

function settledBy(
  settlements: readonly Settlement[],
  { tokens, leases }: Ends,
  lost: string | null,
): SettleResult[] {
  const gone = new Set(lost?.split(','))
  const seen = new Set<string>()
  return settlements.map((_, i) => {
    const lease = leases[i]
    if (lease === undefined) return 'lost'
    const name = `${tokens.indexOf(lease.claim) + 1}:${lease.seq}`
    // Of two for the same job the first one counts.
    if (gone.has(name) || seen.has(name)) return 'lost'
    seen.add(name)
    return 'applied'
  })
}
