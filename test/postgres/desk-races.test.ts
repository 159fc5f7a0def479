/**
 * The desk against the fast path: plain jobs and others, commands and settings, from several connections at once. Judged
 * at the end, when all is quiet: each job is in one place, and all that counts agrees.
 */
import type { Store } from 'millrace'
import { PostgresStore } from 'millrace/postgres'
import { expect, onTestFinished, test } from 'vitest'
import { Random } from '../chaos/random.js'
import { Storm } from './desk-storm.js'
import { asAdmin, freshSchema, serverUrl } from './postgres.js'

const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)

test(`a storm of both leaves nothing behind (seed ${seed})`, async () => {
  const schema = freshSchema()
  const stores = await Promise.all(Array.from({ length: 3 }, () => openStore(schema)))
  const storm = new Storm(stores, new Random(seed))
  await storm.rage(2_000)
  await storm.calm()

  expect(storm.wrong).toEqual([])
  const [store] = stores as [Store]
  const { kinds } = await store.counts()
  expect(await rowsByState(schema)).toEqual(countsByState(kinds))
  expect(kinds.reduce((count, { totals }) => count + totals.enqueued, 0)).toBe(storm.inserted.size)
  expect(await sizes(schema, ['lease', 'ready', 'waiting', 'arrival'])).toEqual([0, 0, 0, 0])
  expect(await gatesInUse(store)).toEqual([])
  expect(await gatesWithJobs(schema)).toEqual([])
  expect(await wrongMarks(schema)).toEqual([])
  const left = await idsIn(schema)
  const lost = [...storm.inserted].filter((id) => !left.has(id) && !storm.forgotten.has(id))
  expect(lost).toEqual([])
}, 60_000)

async function openStore(schema: string): Promise<Store> {
  const store = new PostgresStore({ url: serverUrl(), schema, poolSize: 4 })
  await store.open()
  onTestFinished(() => store.close())
  return store
}

type Kinds = Awaited<ReturnType<Store['counts']>>['kinds']

/** Nothing is left to do, so these are all. */
function countsByState(kinds: Kinds): Record<string, number> {
  const counts = new Map<string, number>()
  for (const [state, count] of kinds.flatMap(({ states }) => Object.entries(states)))
    if (count !== 0) counts.set(state, (counts.get(state) ?? 0) + count)
  return Object.fromEntries(counts)
}

/** Where each job's row, and all that may cover it, say that it is: several, if they do not agree. */
async function rowsByState(schema: string): Promise<Record<string, number>> {
  const covered = (table: string) => `SELECT FROM ${schema}.${table} c WHERE j.seq BETWEEN c.first AND c.last`
  const leased = `SELECT FROM ${schema}.lease l, generate_series(1, cardinality(l.spans), 2) s (i)
    WHERE j.seq BETWEEN l.spans[s.i] AND l.spans[s.i + 1]`
  const rows = await ask<{ state: string; count: string }>(`
    SELECT concat_ws(' and ',
      ('{NULL,scheduled,NULL,retrying,blocked,completed,dead,cancelled}'::text[])[j.state + 1],
      CASE WHEN j.state = 0 AND EXISTS (${covered('done')}) THEN 'completed' END,
      CASE WHEN EXISTS (${covered('ready')}) THEN 'pending' END,
      CASE WHEN EXISTS (SELECT FROM ${schema}.waiting w WHERE w.seq = j.seq) THEN 'pending' END,
      CASE WHEN EXISTS (${leased}) THEN 'running' END) AS state, count(*)
    FROM ${schema}.job j GROUP BY 1`)
  return Object.fromEntries(rows.map(({ state, count }) => [state, Number(count)]))
}

function sizes(schema: string, tables: readonly string[]): Promise<number[]> {
  return Promise.all(tables.map(async (table) => (await ask(`SELECT FROM ${schema}.${table}`)).length))
}

async function idsIn(schema: string): Promise<Set<string>> {
  return new Set((await ask<{ id: string }>(`SELECT id FROM ${schema}.job`)).map(({ id }) => id))
}

async function gatesInUse(store: Store): Promise<unknown[]> {
  const pages = await Promise.all(
    (['queue', 'job', 'group', 'key'] as const).map((of) => store.gates({ of, limit: 100 })),
  )
  return pages.flatMap(({ gates }) => gates.filter(({ running, pending }) => running !== 0 || pending !== 0))
}

/** Gates that believe that jobs stand in line, or are parked behind them. */
function gatesWithJobs(schema: string): Promise<unknown[]> {
  return ask(`SELECT scope, owner, name, parked, state FROM ${schema}.gate g WHERE parked <> 0 OR EXISTS (
    SELECT FROM json_array_elements(g.state::json->'lines') l WHERE (l->>3)::int <> 0 OR (l->>4)::int <> 0)`)
}

/** Tagged jobs without a mark that tells where they are, and marks of no job. */
function wrongMarks(schema: string): Promise<unknown[]> {
  return ask(`SELECT j.id, m.* FROM (
      SELECT j.id, j.seq, CASE WHEN d.last IS NULL THEN j.state ELSE 5 END AS state, coalesce(d.expires_at, j.rank, 0) AS rank
      FROM ${schema}.job j LEFT JOIN ${schema}.done d ON j.state = 0 AND j.seq BETWEEN d.first AND d.last
      WHERE j.tags IS NOT NULL
    ) j FULL JOIN (SELECT * FROM ${schema}.mark WHERE mark = 'tagged') m
    ON m.seq = j.seq AND m.state = j.state AND m.rank = j.rank
    WHERE m.seq IS NULL OR j.seq IS NULL`)
}

function ask<Row>(text: string): Promise<Row[]> {
  return asAdmin(async (client) => (await client.query(text)).rows as Row[])
}
