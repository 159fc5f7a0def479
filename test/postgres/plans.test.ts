/** What is read of tables that grow must cost what is read, whatever the server knows of them: nothing, or that they are empty. */
import type { Store } from 'millrace'
import { PostgresStore } from 'millrace/postgres'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import type { Value } from '../../src/databases/postgres/literal.js'
import { planner } from '../../src/stores/postgres/functions.js'
import { looking } from '../../src/stores/postgres/statements.js'
import { childOf, parent } from '../../src/testing/conformance/family-jobs.js'
import { claimRequest, complete, die, newJob, retryIn } from '../../src/testing/conformance/helpers.js'
import { asAdmin, freshSchema, notOurs, open, serverUrl } from './postgres.js'

type Asked = readonly [statement: string, values: readonly Value[]]

/** Of load.sql: those that read the next so many of what may be many, each in the order of an index. */
const pages: readonly Asked[] = [
  ['byState', [1, 0, 0, 10]],
  ['window', [1, 0, 0, 10]],
  ['linksAfter', [1, 'a', 10]],
  ['gateDue', [0, 0, 10]],
  ['gateFading', [0, 0, 10]],
  ['holdersByRank', [0, 0, 10]],
  ['guardsByRank', [0, 0, 10]],
  ['schedulesByLook', [0, 0, 10]],
  ['schedulesByTold', [0, 0, 10]],
  ['mailLine', ['a', 0, 10]],
  ['mailTime', [0, 0, 10]],
  ['spreading', [0, 10]],
]

/** Those that look for some by their keys, and may put what they found into another order. */
const keys: readonly Asked[] = [
  ['byIds', [['a', 'b']]],
  ['completed', [5, 0, 0, 10]],
  ['linksTo', [['a', 'b']]],
  ['linksBetween', [['a'], ['b']]],
  ['parentsOf', [['a', 'b']]],
  ['waitingFor', ['a', 0, 10]],
  ['placesOf', [['a', 'b']]],
  ['openSteps', [[1, 2]]],
  ['gatesByNum', [[1, 2]]],
  ['holders', [['a']]],
  ['guards', [['a']]],
  ['mail', [['a']]],
]

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Plan[]
}

test.each(pages)('%s goes along an index', async (name, values) => {
  const nodes = await nodesOf(name, values)
  expect(nodes.filter(({ isRead }) => isRead)).toEqual([])
  expect(nodes.filter(({ type }) => type.includes('Sort'))).toEqual([])
})

test.each(keys)('%s looks into indexes', async (name, values) => {
  expect((await nodesOf(name, values)).filter(({ isRead }) => isRead)).toEqual([])
})

interface Node {
  readonly type: string
  readonly of: string | undefined
  /** As a whole, or all of it that is like what is asked for. */
  readonly isRead: boolean
}

/** Of the plan for tables that nothing is known of, because they are new. */
async function nodesOf(name: string, values: readonly Value[]): Promise<Node[]> {
  const schema = freshSchema()
  await open({ schema })
  const text = looking(schema).bound(name, values)
  return asAdmin(async (client) => {
    await client.query('BEGIN')
    for (const setting of planner) await client.query(`SET LOCAL ${setting}`)
    const { rows } = await client.query(`EXPLAIN (FORMAT JSON) ${text}`)
    await client.query('ROLLBACK')
    return [...walk(rows[0]['QUERY PLAN'][0].Plan as Plan)]
  })
}

function* walk({ 'Node Type': type, 'Relation Name': of, Plans = [] }: Plan): Generator<Node> {
  yield { type, of, isRead: type === 'Seq Scan' || type.startsWith('Bitmap') }
  for (const plan of Plans) yield* walk(plan)
}

test('what is claimed is told in its order, after all of a schema was vacuumed', async () => {
  const schema = freshSchema()
  await emptyAndVacuumed(schema)
  const store = await openStore(schema)
  const jobs = ['first', 'second'].map((queue) => newJob({ queue, name: `of-${queue}` }))
  await store.insert(jobs)
  const { claimed } = await store.exchange({
    worker: 'worker',
    settlements: [],
    claim: claimRequest(2, ['second', 'first']),
  })
  expect(claimed.map(({ id, queue, name }) => ({ id, queue, name }))).toEqual(
    jobs.map(({ id, queue, name }) => ({ id, queue, name })).reverse(),
  )
})

test.skipIf(notOurs)('no plan that was made for empty tables goes through all of one', async () => {
  const schema = freshSchema()
  await emptyAndVacuumed(schema)
  const plans: { readonly query: string; readonly plan: Plan }[] = []
  const pool = new pg.Pool({ connectionString: serverUrl(), max: 2 })
  onTestFinished(() => pool.end())
  pool.on('connect', (client) => {
    client.on('notice', ({ message = '' }) => {
      const at = message.indexOf('{')
      if (!message.includes('plan:') || at < 0) return
      const { 'Query Text': query, Plan: plan } = JSON.parse(message.slice(at))
      plans.push({ query, plan })
    })
    void client.query(explainAll)
  })
  const store = await openStore(schema, pool)
  await live(store)

  expect(plans.length).toBeGreaterThan(100)
  const through = plans.flatMap(({ query, plan }) =>
    [...scansOf(plan)].filter(goesThrough).map((scan) => `${scan['Relation Name']}: ${query.trim()}`),
  )
  expect([...new Set(through)]).toEqual([
    expect.stringContaining('ORDER BY d.expires_at, d.last FOR UPDATE SKIP LOCKED'),
  ])
})

/** All but the one that goes through what was kept, in the order in which it expires, and stops at what has not. */
const large: ReadonlySet<unknown> = new Set(['job', 'link', 'waiting', 'mark', 'done', 'gate'])

function goesThrough(scan: Plan): boolean {
  return large.has(scan['Relation Name']) && scan['Index Cond'] === undefined
}

/** Some of what may happen to jobs. */
async function live(store: Store): Promise<void> {
  const top = parent({ queue: 'b' }, { waits: 'open' })
  const child = childOf([top], { queue: 'a' })
  await store.configure({
    gate: { of: 'queue', name: 'c' },
    change: { limit: { concurrency: 5 } },
    declared: false,
  })
  for (let round = 0; round < 3; round++) {
    await store.insert(['a', 'b', 'a'].map((queue, lane) => newJob({ queue, lane, name: queue })))
    await store.insert(['a', 'b'].map((queue) => newJob({ queue, tags: ['tag'], delay: round })))
    await store.insert([
      newJob({ queue: 'c' }),
      newJob({ queue: 'c', traffic: { gated: false, group: 'g', key: undefined } }),
    ])
    await store.insert(
      round === 0 ? [top] : [1, 2].map((n) => ({ ...child, id: `${child.id}-${round}-${n}` })),
    )
    const { claimed } = await store.exchange({
      worker: 'w',
      settlements: [],
      claim: claimRequest(50, ['c', 'b', 'a']),
    })
    const settlements = claimed.map(({ id, token }, i) => {
      const outcome = [complete(), complete(undefined, { completed: 0, dead: 0 }), retryIn(1), die()][i % 4]
      return { id, token, outcome: outcome ?? complete(), inserts: undefined }
    })
    const ended = settlements.filter(({ outcome }) => outcome.to === 'completed')
    await store.exchange({ worker: 'w', settlements: ended, claim: claimRequest(1, ['a']) })
    await store.exchange({
      worker: 'w',
      settlements: settlements.filter((one) => !ended.includes(one)),
      claim: undefined,
    })
    await store.sweep({ limit: 100, keep: { completed: 1e6, dead: 1e6 } })
    for (const state of [
      'pending',
      'running',
      'scheduled',
      'retrying',
      'blocked',
      'completed',
      'dead',
    ] as const)
      for (const tag of [undefined, 'tag']) await store.list({ filter: { state, tag }, limit: 10 })
    await store.links({ parents: [top.id], limit: 10 })
    await store.get(claimed.map(({ id }) => id))
    await store.operate(
      { filter: { state: 'dead' }, limit: 5 },
      { do: 'retry', delay: 0, spacing: 0, change: {} },
    )
    await store.operate({ filter: { state: 'completed' }, limit: 2 }, { do: 'remove' })
  }
}

/** What is planned next is planned for tables that have pages, and are known to have no rows. */
async function emptyAndVacuumed(schema: string): Promise<void> {
  await live(await openStore(schema))
  await asAdmin(async (client) => {
    const { rows } = await client.query(
      `SELECT tablename FROM pg_tables
      WHERE schemaname = $1 AND tablename NOT IN ('migration', 'number', 'sweep') ORDER BY tablename = 'queue'`,
      [schema],
    )
    for (const { tablename } of rows) await client.query(`DELETE FROM "${schema}"."${tablename}"`)
    for (const { tablename } of rows) await client.query(`VACUUM (TRUNCATE false) "${schema}"."${tablename}"`)
  })
}

const explainAll = `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
  SET auto_explain.log_format = json; SET client_min_messages = log`

async function openStore(schema: string, pool?: pg.Pool): Promise<Store> {
  const store = new PostgresStore(
    pool === undefined ? { url: serverUrl(), schema } : { pool, schema, listen: false },
  )
  await store.open()
  onTestFinished(() => store.close())
  return store
}

function* scansOf(plan: Plan): Generator<Plan> {
  if (plan['Relation Name'] !== undefined && plan['Node Type'].includes('Scan')) yield plan
  for (const below of plan.Plans ?? []) yield* scansOf(below)
}
