/** What a job leaves behind when it is forgotten: nothing. And texts that lists of texts cannot hold. */
import { PostgresStore } from 'millrace/postgres'
import { expect, onTestFinished, test } from 'vitest'
import { newJob } from '../new-job.js'
import { outcomeOf } from '../outcome.js'
import { asAdmin, freshSchema, serverUrl } from './postgres.js'

const worker = 'worker'

test.each([
  ['plain', {}],
  ['grouped', { traffic: { gated: false, group: 'a', key: undefined } }],
])('log lines of a %s job go with it', async (_, traffic) => {
  const { store, schema } = await openStore()
  await store.insert([newJob({ id: 'long', ...traffic }), newJob({ id: 'short', ...traffic })])
  const claimed = await claim(store)
  const line = { at: 1, attempt: 1, level: 'info' as const, text: 'half way' }
  const [long] = claimed
  const report = { progress: undefined, logs: [line], logsFrom: 0, steps: undefined }
  await store.extend({ worker, lease: 30_000, held: [{ id: 'long', token: long?.token ?? '', ...report }] })
  expect(await count(schema, 'log')).toBe(1)
  expect(await end(store, claimed)).toEqual(['applied', 'applied'])
  expect(await count(schema, 'log')).toBe(0)
  expect(await count(schema, 'job')).toBe(0)
})

test.each([
  ['plain', {}],
  ['grouped', { traffic: { gated: false, group: 'a', key: 'b' } }],
])('tags of a %s job go with it, and come along when it is kept', async (_, traffic) => {
  const { store, schema } = await openStore()
  await store.insert(['a', 'b'].map((id) => newJob({ id, tags: ['red'], ...traffic })))
  const [a, b] = await claim(store)
  expect(await end(store, [a, b].slice(0, 1), 60_000)).toEqual(['applied'])
  expect((await store.list({ filter: { tag: 'red', state: 'completed' }, limit: 10 })).jobs).toHaveLength(1)
  expect(await end(store, [a, b].slice(1))).toEqual(['applied'])
  expect(await count(schema, 'mark')).toBe(1)
  expect(await count(schema, 'waiting')).toBe(0)
  expect(await count(schema, 'lease')).toBe(0)
})

test.each([
  ['plain', {}],
  ['limited', { traffic: { gated: true, group: undefined, key: undefined } }],
])('the input of a %s job is any text', async (_, traffic) => {
  const { store } = await openStore()
  const inputs = ['null', '', 'a\x1eb', 'a\x1db', "it's", '\\']
  for (const [i, input] of inputs.entries())
    await store.insert([newJob({ id: `alone-${i}`, input, ...traffic })])
  await store.insert(inputs.map((input, i) => newJob({ id: `together-${i}`, input, ...traffic })))
  const claimed = []
  for (let i = 0; i < 12 && claimed.length < 12; i++) claimed.push(...(await claim(store, `claim-${i}`)))
  expect(claimed.map(({ id, input }) => [id, input]).sort()).toEqual(
    ['alone', 'together'].flatMap((how) => inputs.map((input, i) => [`${how}-${i}`, input])).sort(),
  )
  expect(await end(store, claimed)).toEqual(claimed.map(() => 'applied'))
})

test('results of kept jobs stay with their jobs, wherever these stand', async () => {
  const { store } = await openStore()
  const traffic = { gated: false, group: 'a', key: undefined }
  const jobs = Array.from({ length: 300 }, (_, i) =>
    newJob({ id: `job-${i}`, lane: i % 3 === 2 ? 3 : 2, traffic }),
  )
  await store.insert(jobs)
  const claimed = await claim(store)
  const settlements = claimed.map(({ id, token }, i) => {
    const outcome = outcomeOf({
      to: 'completed',
      retain: 60_000 + (i % 4),
      result: i % 5 === 0 ? undefined : `"${id}"`,
    })
    return { id, token, outcome, inserts: undefined }
  })
  const { settled } = await store.exchange({ worker, settlements, claim: undefined })
  expect(new Set(settled)).toEqual(new Set(['applied']))
  const kept = await store.get(claimed.map(({ id }) => id))
  expect(kept.map((job) => job?.result)).toEqual(settlements.map(({ outcome: { result } }) => result))
})

test('a job that ends as soon as it has arrived has finished', async () => {
  const { store, schema } = await openStore()
  const { store: other } = await openStore(schema)
  const traffic = { gated: false, group: 'a', key: undefined }
  await asAdmin(async (client) => {
    await client.query('BEGIN')
    await store.insert([newJob({ id: 'late', traffic })], client)
    // So that nobody admits it before it is cancelled.
    await store.close()
    await client.query('COMMIT')
  })
  await other.operate({ ids: ['late'] }, { do: 'cancel', reason: 'too late', retain: 60_000 })
  const [late] = await other.get(['late'])
  expect([late?.state, late?.finishedAt]).toEqual(['cancelled', late?.createdAt])
})

test('gates and lines go on when two billion numbers have been given away', async () => {
  const { store, schema } = await openStore()
  await asAdmin((client) => client.query(`UPDATE "${schema}".number SET last = 2147483646`))
  const jobs = ['a', 'b', 'c'].map((id) => newJob({ id, traffic: { gated: true, group: 'a', key: id } }))
  const gate = { of: 'queue', name: 'main' } as const
  await store.configure({ gate, change: { each: { concurrency: 1 } }, declared: false })
  await store.insert(jobs)
  for (const { id } of jobs) {
    const claimed = await claim(store, `claim-${id}`)
    expect(claimed.map((job) => job.id)).toEqual([id])
    expect(await end(store, claimed)).toEqual(['applied'])
  }
  expect(await count(schema, 'waiting')).toBe(0)
})

test('jobs with limits that are too large together for one text are claimed', async () => {
  const { store } = await openStore()
  const input = JSON.stringify('x'.repeat(1_000_000))
  const traffic = { gated: false, group: 'a', key: undefined }
  for (let i = 0; i < 105; i += 15)
    await store.insert(Array.from({ length: 15 }, (_, k) => newJob({ id: `large-${i + k}`, input, traffic })))
  const claimed = await claim(store, 'claim', 105)
  expect(claimed.map((job) => job.input.length)).toEqual(Array(105).fill(input.length))
  expect(await end(store, claimed)).toEqual(Array(105).fill('applied'))
}, 60_000)

async function openStore(schema = freshSchema()) {
  const store = new PostgresStore({ url: serverUrl(), schema })
  onTestFinished(() => store.close())
  await store.open()
  return { store, schema }
}

async function claim(store: PostgresStore, token = 'claim', count = 100) {
  const room = { shared: count, own: [0, 0, 0, 0] }
  const picks = [{ queue: 'main', lane: 2, take: count }]
  const request = { token, lease: 30_000, room, picks, turn: 0 }
  return (await store.exchange({ worker, settlements: [], claim: request })).claimed
}

async function end(
  store: PostgresStore,
  claimed: readonly ({ id: string; token: string } | undefined)[],
  retain = 0,
) {
  const outcome = outcomeOf({ to: 'completed', retain })
  const settlements = claimed.flatMap(
    (job) => job && [{ id: job.id, token: job.token, outcome, inserts: undefined }],
  )
  return (await store.exchange({ worker, settlements: settlements as never, claim: undefined })).settled
}

async function count(schema: string, table: string): Promise<number> {
  const { rows } = await asAdmin((client) =>
    client.query(`SELECT count(*)::int AS n FROM "${schema}".${table}`),
  )
  return rows[0].n
}
