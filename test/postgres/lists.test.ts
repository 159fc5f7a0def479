/** Lists find what is rare among many in one call, and look at few rows for it. */
import { postgresStore } from 'millrace/postgres'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ClaimedJob, NewJob } from '../../src/core/job.js'
import type { Outcome } from '../../src/core/lifecycle.js'
import { markOf } from '../../src/core/search.js'
import type { JobFilter, Store } from '../../src/core/store.js'
import { found, selection } from '../../src/stores/postgres/select.js'
import { looking } from '../../src/stores/postgres/statements.js'
import { cancelCommand, childOf, parent } from '../../src/testing/conformance/family-jobs.js'
import { claim, complete, die, failureOf, newJob } from '../../src/testing/conformance/helpers.js'
import { asAdmin, serverUrl } from './postgres.js'

const schema = `test_${process.pid}_Lists`
/** More than a call looks at. */
const crowd = 6_000
const few = 5
/** Rows that a call may read: each job found, its way there, and what tables of a few rows have. */
const fewRows = 600
const hour = 3_600_000

let store: Store
let client: pg.Client
/** When those came and ended that are rare. */
let rareFrom = 0
let rareTo = 0

beforeAll(async () => {
  store = postgresStore({ url: serverUrl(), schema })
  await store.open()
  client = new pg.Client(serverUrl())
  await client.connect()
  await fill({})
  await nextMillisecond()
  rareFrom = Date.now()
  const search = [markOf({ path: 'order.id', value: 42 })]
  const rare = { name: 'rare', tags: ['rare', 'common'], search, input: '{"order":{"id":42}}' }
  await fill(rare, few)
  await nextMillisecond()
  rareTo = Date.now()
  await fill({})
}, 120_000)

afterAll(async () => {
  await client?.end()
  await store?.close()
  await asAdmin((admin) => admin.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`))
})

const rare: Record<string, Omit<JobFilter, 'state'>> = {
  name: { name: 'rare' },
  tag: { tag: 'rare' },
  field: { field: { path: 'order.id', value: 42, indexed: true } },
}
const none: Record<string, Omit<JobFilter, 'state'>> = {
  name: { name: 'nobody' },
  queue: { queue: 'nowhere' },
  tag: { tag: 'none' },
  field: { field: { path: 'order.id', value: 43, indexed: true } },
  time: { before: 1_000 },
}

for (const state of ['pending', 'scheduled', 'completed', 'dead'] as const) {
  describe(`${state} jobs`, () => {
    for (const [by, filter] of Object.entries(rare)) {
      test(`a rare ${by} is found in one call`, async () => {
        expect(await look({ state, ...filter })).toEqual({ found: few, isAll: true, isCheap: true })
      })
    }

    for (const [by, filter] of Object.entries(none)) {
      test(`a ${by} that none has is told in one call`, async () => {
        expect(await look({ state, ...filter })).toEqual({ found: 0, isAll: true, isCheap: true })
      })
    }

    test('a short time is found in one call', async () => {
      const ahead = state === 'scheduled' ? hour : 0
      const filter = { state, after: rareFrom + ahead, before: rareTo + ahead }
      expect(await look(filter)).toEqual({ found: few, isAll: true, isCheap: true })
    })

    test('a rare name is found in one call beside a tag that many have', async () => {
      expect(await look({ state, name: 'rare', tag: 'common' })).toMatchObject({ found: few, isAll: true })
    })

    test('a field that is not indexed takes several calls, each of which looks at a part', async () => {
      const filter = { state, field: { path: 'order.id', value: 42 } }
      const found: string[] = []
      let calls = 0
      for (let cursor: string | undefined; calls === 0 || cursor !== undefined; calls++) {
        const page = await store.list({ filter, limit: 100, cursor })
        found.push(...page.jobs.map(({ id }) => id))
        cursor = page.cursor
      }
      expect(found).toHaveLength(few)
      expect(calls).toBeGreaterThan(1)
    })
  })
}

test('a rare cause of death is found in one call', async () => {
  const { cause } = failureOf('rare', 'it is over')
  expect(await look({ state: 'dead', cause })).toEqual({ found: few, isAll: true, isCheap: true })
})

/** One call, with the rows that it read. */
test('a page of a parent with all of its children is read in a few tries', async () => {
  const top = parent({ queue: 'families' })
  await store.insert([top, ...Array.from({ length: 999 }, () => childOf([top], { queue: 'families' }))])
  await store.operate({ ids: [top.id] }, cancelCommand)
  const query = { filter: { state: 'cancelled', queue: 'families' }, limit: 1_000 } as const
  for (let page = await store.list(query); page.jobs.length < 1_000; page = await store.list(query))
    await store.sweep({ limit: 1_000, keep: { completed: 1e6, dead: 1e6 } })
  const { jobs } = await store.list(query)
  expect(jobs.filter(({ family }) => family?.parents[0] === top.id)).toHaveLength(999)
})

async function look(filter: JobFilter) {
  const query = { filter, limit: 100 }
  const page = await store.list(query)
  await client.query('BEGIN')
  const { statement, values } = selection(query, await kindsOf(filter))
  const before = await rowsRead()
  const { rows } = await client.query(looking(schema).bound(statement, values))
  const read = (await rowsRead()) - before
  await client.query('COMMIT')
  expect(found(query, rows).ids).toEqual(page.jobs.map(({ id }) => id))
  return { found: page.jobs.length, isAll: page.cursor === undefined, isCheap: read <= fewRows }
}

async function kindsOf({ name, queue }: JobFilter): Promise<number[] | undefined> {
  if (name === undefined && queue === undefined) return undefined
  const text = `SELECT k.num FROM "${schema}".kind k JOIN "${schema}".queue q ON q.num = k.queue
    WHERE ($1::text IS NULL OR k.name = $1) AND ($2::text IS NULL OR q.name = $2)`
  const { rows } = await client.query(text, [name ?? null, queue ?? null])
  return rows.map(({ num }) => num)
}

/** By this transaction so far. */
async function rowsRead(): Promise<number> {
  const text = `SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int AS n
    FROM pg_stat_xact_user_tables WHERE schemaname = $1`
  return (await client.query(text, [schema])).rows[0].n
}

/** So many jobs in each of the states; those of the crowd are of two names, one after the other. */
async function fill(fields: Partial<NewJob>, count = crowd): Promise<void> {
  for (const more of [{ queue: 'kept' }, { queue: 'lost' }, { delay: hour }, {}])
    for (let i = 0; i < count; i += 500)
      await store.insert(
        Array.from({ length: Math.min(500, count - i) }, (_, n) => newJob({ ...one(n), ...fields, ...more })),
      )
  await endAll('kept', count, () => complete())
  await endAll('lost', count, ({ name }) => die(failureOf(name, 'it is over')))
}

function one(n: number): Partial<NewJob> {
  return n % 2 === 0 ? { name: 'even', tags: ['common'] } : { name: 'odd' }
}

async function endAll(queue: string, count: number, end: (job: ClaimedJob) => Outcome): Promise<void> {
  for (let left = count; left > 0; ) {
    const claimed = await claim(store, 500, { queues: [queue], leaseMs: hour })
    const settlements = claimed.map((job) => ({
      ...{ id: job.id, token: job.token, inserts: undefined },
      outcome: end(job),
    }))
    await store.exchange({ worker: 'worker', settlements, claim: undefined })
    left -= claimed.length
  }
}

/** Two times that are told apart. */
async function nextMillisecond(): Promise<void> {
  const now = Date.now()
  while (Date.now() === now) await store.get([])
}
