import { defineJob, type ExchangeRequest, Millrace, type NewJob, type Signal } from 'millrace'
import { PostgresStore } from 'millrace/postgres'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newId, newToken } from '../../src/system/ids.js'
import { newJob as jobWith } from '../new-job.js'
import { asAdmin, freshSchema, serverUrl, signal } from './postgres.js'

describe('a claim that is asked for while jobs are announced', () => {
  test('goes with them, in one transaction, and nobody is told of what it took', async () => {
    const { store, schema } = await openStore()
    const other = await openStore(schema)
    const told: Signal[] = []
    other.store.subscribe((news) => told.push(news))
    let exchanged: ReturnType<PostgresStore['exchange']> | undefined
    store.subscribe(({ type }) => {
      if (type === 'arriving') exchanged = store.exchange(claimOf(5))
    })
    const [a, b] = [newJob(), newJob()]
    expect(await store.insert([a, b])).toMatchObject([{ status: 'inserted' }, { status: 'inserted' }])
    const { claimed } = (await exchanged) ?? { claimed: [] }
    expect(claimed.map(({ id }) => id)).toEqual([a.id, b.id])
    expect(await transactionsOf(schema, [a.id, b.id])).toBe(1)
    // What comes later is heard, so nothing was on its way before it.
    await asAdmin((client) => client.query(`SELECT pg_notify('millrace.${schema}', 'x last')`))
    await heard(told, 'last')
    expect(told).toEqual([{ type: 'ready', queues: new Set(['last']) }])
  })

  test('takes what it has room for; the others are told of', async () => {
    const { store } = await openStore()
    const told: Signal[] = []
    let exchanged: ReturnType<PostgresStore['exchange']> | undefined
    store.subscribe((news) => {
      told.push(news)
      if (news.type === 'arriving') exchanged = store.exchange(claimOf(1))
    })
    const jobs = [newJob(), newJob()]
    await store.insert(jobs)
    const { claimed } = (await exchanged) ?? { claimed: [] }
    expect(claimed.map(({ id }) => id)).toEqual([jobs[0]?.id])
    expect(told.filter(({ type }) => type === 'ready')).toEqual([
      { type: 'ready', queues: new Set(['main']) },
    ])
  })

  test('gets what was ready before them first', async () => {
    const { store, schema } = await openStore()
    const other = await openStore(schema)
    const [older, newer] = [newJob(), newJob()]
    await other.store.insert([older])
    const claims: ReturnType<PostgresStore['exchange']>[] = []
    store.subscribe(({ type }) => {
      if (type === 'arriving') claims.push(store.exchange(claimOf(1)))
    })
    expect(await store.insert([newer])).toMatchObject([{ status: 'inserted', state: 'pending' }])
    const [claim] = await Promise.all(claims)
    expect(claim?.claimed.map(({ id }) => id)).toEqual([older.id])
    expect(await store.get([newer.id])).toMatchObject([{ state: 'pending' }])
  })

  test('is answered when an id was there before: the jobs go first, then the claim', async () => {
    const { store } = await openStore()
    const jobs = [newJob(), newJob()]
    await store.insert([jobs[0] as NewJob])
    const claims: ReturnType<PostgresStore['exchange']>[] = []
    store.subscribe(({ type }) => {
      if (type === 'arriving') claims.push(store.exchange(claimOf(5)))
    })
    expect(await store.insert(jobs)).toMatchObject([
      { status: 'duplicate', state: expect.stringMatching(/pending|running/) },
      { status: 'inserted' },
    ])
    const taken = (await Promise.all(claims)).flatMap(({ claimed }) => claimed.map(({ id }) => id))
    const { claimed } = await store.exchange(claimOf(5))
    expect([...taken, ...claimed.map(({ id }) => id)].sort()).toEqual(jobs.map(({ id }) => id).sort())
  })

  test('keeps nobody up while it waits for a caller who adds the same id', async () => {
    const { store, schema } = await openStore()
    const other = await openStore(schema)
    const job = newJob()
    await store.insert([newJob()])
    await store.exchange(claimOf(1))
    const caller = await beginElsewhere()
    await other.store.insert([job], caller)
    let exchanged: ReturnType<PostgresStore['exchange']> | undefined
    store.subscribe(({ type }) => {
      if (type === 'arriving') exchanged = store.exchange(claimOf(5))
    })
    const inserted = store.insert([job])
    await waitsForLock(schema)
    // Counts what runs, and so waits for all who are about to start something.
    const gate = { of: 'queue', name: 'main' } as const
    await other.store.configure({ gate, change: { limit: { concurrency: 5 } }, declared: false })
    await caller.query('COMMIT')
    expect(await inserted).toMatchObject([{ status: 'duplicate' }])
    const taken = [...((await exchanged)?.claimed ?? []), ...(await store.exchange(claimOf(5))).claimed]
    expect(taken.map(({ id }) => id)).toEqual([job.id])
  })

  test('is answered when the queue turns out to have limits', async () => {
    const { store, schema } = await openStore()
    const other = await openStore(schema)
    await store.insert([newJob()])
    await other.store.configure({
      gate: { of: 'queue', name: 'main' },
      change: { limit: { concurrency: 1 } },
      declared: false,
    })
    const claims: ReturnType<PostgresStore['exchange']>[] = []
    store.subscribe(({ type }) => {
      if (type === 'arriving') claims.push(store.exchange(claimOf(5)))
    })
    expect(await store.insert([newJob()])).toMatchObject([{ status: 'inserted' }])
    const [claim] = await Promise.all(claims)
    expect(claim?.claimed).toHaveLength(1)
  })
})

test('an idle worker runs what its own process adds, however often, without a second look', async () => {
  const { store } = await openStore()
  let looks = 0
  const exchange = store.exchange.bind(store)
  store.exchange = (request) => {
    if (request.settlements.length === 0) looks++
    return exchange(request)
  }
  const job = defineJob({ name: 'count', run: async (_: number) => {} })
  const mill = new Millrace({ store, jobs: [job] })
  onTestFinished(() => mill.close())
  let drained = signal()
  mill.on('drained', () => drained.resolve())
  const worker = mill.worker({ poll: '1h' })
  await worker.start()
  await mill.enqueue(job, 0)
  await drained.promise
  const before = looks
  for (let n = 1; n <= 3; n++) {
    drained = signal()
    await mill.enqueue(job, n)
    await drained.promise
  }
  expect(looks - before).toBe(3)
})

function newJob(): NewJob {
  return jobWith({ id: newId(Date.now()) })
}

async function openStore(schema = freshSchema()): Promise<{ store: PostgresStore; schema: string }> {
  const store = new PostgresStore({ url: serverUrl(), schema })
  onTestFinished(() => store.close())
  await store.open()
  return { store, schema }
}

function claimOf(shared: number): ExchangeRequest {
  const room = { shared, own: [0, 0, 0, 0] }
  const picks = [0, 1, 2, 3].map((lane) => ({ queue: 'main', lane, take: shared }))
  return {
    worker: 'w',
    settlements: [],
    claim: { token: newToken(), lease: 30_000, room, picks, turn: 0, known: undefined },
  }
}

async function beginElsewhere(): Promise<pg.Client> {
  const client = new pg.Client(serverUrl())
  onTestFinished(() => client.end())
  await client.connect()
  await client.query('BEGIN')
  return client
}

/** Ends when somebody in this schema waits for the transaction of another. */
async function waitsForLock(schema: string): Promise<void> {
  const text = `SELECT FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE '%' || $1 || '%'`
  await asAdmin(async (client) => {
    while ((await client.query(text, [schema])).rowCount === 0)
      await new Promise((resolve) => setTimeout(resolve, 10))
  })
}

/** How many transactions wrote the rows of these jobs and of the leases. */
function transactionsOf(schema: string, ids: readonly string[]): Promise<number> {
  return asAdmin(async (client) => {
    const { rows } = await client.query(
      `SELECT count(DISTINCT x)::int AS n FROM (
        SELECT xmin::text AS x FROM "${schema}".job WHERE id = ANY ($1) UNION ALL SELECT xmin::text FROM "${schema}".lease
      ) t`,
      [ids],
    )
    return rows[0].n
  })
}

async function heard(told: readonly Signal[], queue: string): Promise<void> {
  while (!told.some((news) => news.type === 'ready' && news.queues.has(queue)))
    await new Promise((resolve) => setImmediate(resolve))
}
