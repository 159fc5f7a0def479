import type { JobState, NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { sqlState } from '../../databases/postgres/errors.js'
import { bind, type Value } from '../../databases/postgres/literal.js'
import type { Queryable } from '../../databases/postgres/transaction.js'
import type { Query } from '../../databases/postgres/tx/library.js'
import { carefulBatches } from '../page/desk-insert.js'
import { separator } from '../page/separator.js'
import { inSchema } from './in-schema.js'
import type { KindName, Names } from './names.js'

/** Nothing but its queue can hold it up, and its end means nothing to others. */
export function isPlain(job: NewJob): boolean {
  return job.family === undefined && isPlainAmongOthers(job)
}

/** The same, whatever its family is. */
export function isPlainAmongOthers(job: NewJob): boolean {
  return (
    job.traffic === undefined &&
    job.dedupe === undefined &&
    job.guard === undefined &&
    job.unwinds !== true &&
    // A list of texts could not hold it.
    job.input !== '' &&
    !job.input.includes(separator)
  )
}

/** What an insert came to, and what there is to tell of it. */
export interface Inserted {
  readonly results: InsertResult[]
  readonly ready: ReadonlySet<string>
  readonly soonest: number | undefined
}

/** The same in a transaction of the caller's, by its id. Undefined when it turns out that only the desk can. */
export interface InsertedWithin {
  readonly xid: string
  readonly inserted: Inserted | undefined
}

interface Answer {
  readonly at: number | null
  readonly duplicates: string | null
}

/** A statement without parameters, to be sent with others in one message, and what its rows mean. */
export interface Script<T> {
  readonly text: string
  conclude(rows: readonly unknown[]): Promise<T>
}

/** Adds plain jobs in one statement. */
export class Inserter {
  readonly #names: Names
  readonly #now: () => number | null
  readonly #text: string
  readonly #within: string
  readonly #stage: string
  /** Batches to come that are taken for ones with ids that may exist: the last one had some. */
  #careful = 0

  constructor(names: Names, schema: string, now: () => number | null) {
    this.#names = names
    this.#now = now
    this.#within = inSchema(
      `SELECT at, duplicates, ${transactionId} FROM {schema}.insert_within_{set}($1)`,
      schema,
    )
    this.#stage = inSchema('INSERT INTO {schema}.arrival (jobs) VALUES ($1)', schema)
    this.#text = inSchema(
      'SELECT * FROM {schema}.insert_jobs_{set}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)',
      schema,
    )
  }

  async insert(connection: Connection, jobs: readonly NewJob[]): Promise<Inserted> {
    const batch = await this.#batch(jobs)
    const isFresh = this.#careful === 0
    if (!isFresh) this.#careful--
    try {
      return await this.#send(connection, batch, isFresh)
    } catch (error) {
      if (sqlState(error) !== '23505') throw error
      this.#careful = carefulBatches
      return this.#send(connection, batch, false)
    }
  }

  /** The same as a script, for few jobs that are ready at once. */
  async asScript(jobs: readonly NewJob[]): Promise<Script<Inserted>> {
    const batch = await this.#batch(jobs)
    return {
      text: bind(this.#text, this.#values(batch, this.#careful === 0) as Value[]),
      conclude: async (rows) => concluded(batch, rows[0] as Answer & { at: number }),
    }
  }

  async insertWithin(query: Query, jobs: readonly NewJob[]): Promise<InsertedWithin> {
    const batch = await this.#batch(jobs)
    const [now, kinds, limits, ids, inputs, delays, runAts, overrides, tags, search, metadata] = this.#values(
      batch,
      false,
    )
    const payload = { now, kinds, limits, ids, inputs, delays, runAts, overrides, tags, search, metadata }
    const [answer] = await query(this.#within, [JSON.stringify(payload)])
    const { at, duplicates, xid } = answer as unknown as Answer & { xid: string }
    return { xid, inserted: at === null ? undefined : concluded(batch, { at: Number(at), duplicates }) }
  }

  async transactionId(query: Query): Promise<string> {
    const [answer] = await query(`SELECT ${transactionId}`, [])
    return (answer as { xid: string }).xid
  }

  /** For all others: the desk admits them when the transaction has committed. */
  async stage(query: Query, jobs: readonly NewJob[]): Promise<void> {
    await query(this.#stage, [JSON.stringify(jobs)])
  }

  /** Jobs of a queue and lane stand together, each id once. */
  async #batch(jobs: readonly NewJob[]): Promise<Batch> {
    const names = new Map<string, KindName>()
    const firsts = new Map<string, number>()
    jobs.forEach((job, i) => {
      if (!firsts.has(job.id)) firsts.set(job.id, i)
    })
    const order = [...firsts.values()].map((i) => {
      const job = jobs[i] as NewJob
      const line = `${job.lane} ${job.queue}`
      const name = `${line} ${job.name}`
      names.set(name, job)
      return { i, line, name, job }
    })
    const kinds = new Map<string, number>()
    for (const [name, kind] of names) kinds.set(name, await this.#names.kind(kind))
    if (names.size > 1) order.sort((a, b) => (a.line === b.line ? a.i - b.i : a.line < b.line ? -1 : 1))
    return {
      jobs: order.map(({ job }) => job),
      order: order.map(({ i }) => i),
      repeated: jobs.flatMap((job, i) =>
        firsts.get(job.id) === i ? [] : [[i, firsts.get(job.id) as number]],
      ),
      kinds: kinds.size === 1 ? [...kinds.values()] : order.map(({ name }) => kinds.get(name) as number),
    }
  }

  async #send(server: Queryable, batch: Batch, fresh: boolean): Promise<Inserted> {
    const { rows } = await server.query<Answer>({ text: this.#text }, this.#values(batch, fresh))
    return concluded(batch, rows[0] as Answer & { at: number })
  }

  #values({ jobs, kinds }: Batch, fresh: boolean): unknown[] {
    return [
      this.#now(),
      kinds,
      limits(jobs),
      jobs.map(({ id }) => id).join(separator),
      jobs.map(({ input }) => input).join(separator),
      optional(jobs, ({ delay }) => delay || undefined),
      optional(jobs, ({ runAt }) => runAt),
      texts(jobs, ({ overrides }) => overrides),
      texts(jobs, ({ tags }) => tags && JSON.stringify(tags)),
      texts(jobs, ({ search }) => search && JSON.stringify(search)),
      texts(jobs, ({ metadata }) => metadata),
      fresh,
    ]
  }
}

/** As text, because drivers disagree on large numbers. */
const transactionId = 'pg_current_xact_id()::text AS xid'

interface Batch {
  readonly jobs: readonly NewJob[]
  /** Where each was. */
  readonly order: readonly number[]
  /** Where the same id came again, and where it came first. */
  readonly repeated: readonly (readonly number[])[]
  readonly kinds: readonly number[]
}

function limits(jobs: readonly NewJob[]): number[] {
  const [first] = jobs
  const isSame = jobs.every(
    (job) => job.maxAttempts === first?.maxAttempts && job.maxCrashes === first.maxCrashes,
  )
  return (isSame ? jobs.slice(0, 1) : jobs).flatMap(({ maxAttempts, maxCrashes }) => [
    maxAttempts,
    maxCrashes,
  ])
}

function optional(
  jobs: readonly NewJob[],
  of: (job: NewJob) => number | undefined,
): (number | null)[] | null {
  return jobs.some((job) => of(job) !== undefined) ? jobs.map((job) => of(job) ?? null) : null
}

function texts(jobs: readonly NewJob[], of: (job: NewJob) => string | undefined): string | null {
  return jobs.some((job) => of(job) !== undefined) ? jobs.map((job) => of(job) ?? '').join(separator) : null
}

const states: readonly JobState[] = [
  'pending',
  'scheduled',
  'running',
  'retrying',
  'blocked',
  'completed',
  'dead',
  'cancelled',
]

function concluded(
  { jobs, order, repeated }: Batch,
  { at, duplicates }: { at: number; duplicates: string | null },
): Inserted {
  const standing = new Map<number, JobState | undefined>()
  for (const entry of duplicates?.split(',') ?? []) {
    const [index, state] = entry.split(':')
    standing.set(Number(index), states[Number(state)])
  }
  const results: InsertResult[] = new Array(jobs.length + repeated.length)
  const ready = new Set<string>()
  let soonest: number | undefined
  jobs.forEach((job, i) => {
    const due = job.runAt ?? at + job.delay
    const place = order[i] as number
    if (standing.has(i)) {
      results[place] = { status: 'duplicate', state: standing.get(i) }
    } else if (due > at) {
      results[place] = insertedScheduled
      soonest = Math.min(soonest ?? Number.POSITIVE_INFINITY, due - at)
    } else {
      results[place] = insertedPending
      ready.add(job.queue)
    }
  })
  for (const [i = 0, first = 0] of repeated)
    results[i] = { status: 'duplicate', state: results[first]?.state }
  return { results, ready, soonest }
}

export const insertedPending: InsertResult = { status: 'inserted', state: 'pending' }
const insertedScheduled: InsertResult = { status: 'inserted', state: 'scheduled' }
