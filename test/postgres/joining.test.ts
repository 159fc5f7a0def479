/**
 * Children that come in one statement each time, while others of the same parents end, and while parents are cancelled.
 * Judged at the end: every child that was taken in has a link, every link has an end, and all counts agree.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { NewJob, Store } from 'millrace'
import { PostgresStore } from 'millrace/postgres'
import { expect, onTestFinished, test } from 'vitest'
import { cancelCommand, childOf, parent } from '../../src/testing/conformance/family-jobs.js'
import { claimRequest, complete, die } from '../../src/testing/conformance/helpers.js'
import { Random } from '../chaos/random.js'
import { asAdmin, freshSchema, serverUrl } from './postgres.js'

const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)

test(`children join while others end (seed ${seed})`, async () => {
  const schema = freshSchema()
  const stores = await Promise.all(Array.from({ length: 3 }, () => openStore(schema)))
  const random = new Random(seed)
  const parents = Array.from({ length: 6 }, () => parent({ queue: 'tops' }, { waits: 'open' }))
  const [first] = stores as [Store]
  await first.insert(parents)
  const taken = new Map(parents.map(({ id }) => [id, new Set<string>()]))
  const cancelled = new Set<string>()
  let isRaging = true

  const producers = stores.flatMap((store, i) =>
    [0, 1].map((n) => rage(random.fork(`producer ${i} ${n}`), (turn) => produce(store, turn))),
  )
  const workers = stores.map((store, i) =>
    rage(random.fork(`worker ${i}`), (turn) => work(store, `w${i}`, turn)),
  )
  const operator = rage(random.fork('operator'), async (turn) => {
    await sleep(200)
    const { id } = turn.pick(parents.slice(0, 2))
    cancelled.add(id)
    await first.operate({ ids: [id] }, { do: 'cancel', reason: 'no more', retain: 60_000 })
  })
  await sleep(2_000)
  isRaging = false
  await Promise.all([...producers, ...workers, operator])

  await first.operate({ ids: parents.map(({ id }) => id) }, { do: 'seal' })
  const drain = random.fork('drain')
  for (let left = await openJobs(first); left > 0; left = await openJobs(first)) {
    for (let more = true; more; )
      more = (await first.sweep({ limit: 1_000, keep: { completed: 1e6, dead: 1e6 } })).more
    await work(first, 'w0', drain)
  }

  for (const { id } of parents) {
    const rows = await links(schema, id)
    expect(rows.filter(({ ended }) => !ended)).toEqual([])
    expect(rows.map(({ child }) => child)).toEqual([...(taken.get(id) as Set<string>)].sort())
    const [record] = await first.get([id])
    expect(record?.state).toBe(cancelled.has(id) ? 'cancelled' : 'completed')
    const isOpen = cancelled.has(id)
    expect(record?.family).toMatchObject({ children: rows.length, waiting: isOpen ? 1 : 0, open: isOpen })
  }
  expect([...taken.values()].reduce((sum, { size }) => sum + size, 0)).toBeGreaterThan(500)

  async function rage(turns: Random, turn: (random: Random) => Promise<void>): Promise<void> {
    while (isRaging) await turn(turns)
  }

  /** Some are sent again, as after an answer that was lost. */
  async function produce(store: Store, turn: Random): Promise<void> {
    const top = turn.pick(parents)
    const child = childOf([top], { queue: 'children' })
    const twins = Array.from(
      { length: turn.integer(1, 40) },
      (_, n): NewJob => ({ ...child, id: `${child.id}.${n}` }),
    )
    for (let times = turn.chance(0.2) ? 2 : 1; times > 0; times--) {
      const results = await store.insert(twins)
      results.forEach(({ status }, i) => {
        if (status === 'inserted') taken.get(top.id)?.add((twins[i] as NewJob).id)
      })
    }
    await sleep(turn.between(0, 10))
  }

  async function work(store: Store, worker: string, turn: Random): Promise<void> {
    const claim = claimRequest(turn.integer(1, 60), ['tops', 'children'])
    const { claimed } = await store.exchange({ worker, settlements: [], claim })
    const settlements = claimed.map(({ id, token, queue }) => {
      const keep = { completed: queue === 'tops' || turn.chance(0.5) ? 600_000 : 0, dead: 600_000 }
      const outcome = queue === 'tops' || turn.chance(0.95) ? complete(undefined, keep) : die()
      return { id, token, outcome, inserts: undefined }
    })
    if (settlements.length > 0) await store.exchange({ worker, settlements, claim: undefined })
  }
}, 60_000)

test('a child that comes while it is cancelled with its parent is cancelled, or never was there', async () => {
  const schema = freshSchema()
  const [adds, cancels] = (await Promise.all([openStore(schema), openStore(schema)])) as [Store, Store]
  const top = parent({}, { waits: 'open' })
  await adds.insert([top])
  const child = childOf([top])
  const { inserting, operating } = await asAdmin(async (client) => {
    await client.query(`BEGIN; SELECT FROM "${schema}".parent FOR UPDATE`)
    const inserting = adds.insert([child])
    await waiting(schema, 1)
    const operating = cancels.operate({ ids: [top.id, child.id] }, cancelCommand)
    await waiting(schema, 2)
    await client.query('COMMIT')
    return { inserting, operating }
  })
  const [[inserted], report] = await Promise.all([inserting, operating])
  for (let i = 0; i < 3; i++) await adds.sweep({ limit: 100, keep: { completed: 100, dead: 100 } })
  const [record] = await adds.get([child.id])
  expect([inserted?.status, record?.state]).toEqual(['inserted', 'cancelled'])
  expect(report.affected).toEqual([top.id, child.id])
})

/** Resolves when so many wait for a lock in the schema. */
async function waiting(schema: string, count: number): Promise<void> {
  const text = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`
  for (;;) {
    const { rows } = await asAdmin((client) => client.query(text, [`%${schema}%`]))
    if (rows[0].count >= count) return
    await sleep(5)
  }
}

async function openStore(schema: string): Promise<Store> {
  const store = new PostgresStore({ url: serverUrl(), schema, poolSize: 4 })
  await store.open()
  onTestFinished(() => store.close())
  return store
}

async function openJobs(store: Store): Promise<number> {
  const { kinds } = await store.counts()
  return kinds.reduce((sum, { states }) => sum + states.pending + states.running + states.blocked, 0)
}

async function links(schema: string, id: string): Promise<{ child: string; ended: boolean }[]> {
  const text = `SELECT l.child, l.ended_at IS NOT NULL OR l.state LIKE '%"end":%' AS ended
    FROM "${schema}".link l JOIN "${schema}".job j ON j.seq = l.parent WHERE j.id = $1 ORDER BY l.child`
  return asAdmin(async (client) => (await client.query(text, [id])).rows)
}
