import { PostgresStore } from 'millrace/postgres'
import { expect, onTestFinished, test } from 'vitest'
import { loading } from '../../src/stores/postgres/statements.js'
import { claim, claimOne, complete, settle } from '../../src/testing/conformance/helpers.js'
import { newJob } from '../new-job.js'
import { asAdmin, freshSchema, serverUrl } from './postgres.js'

test('of many processes that sweep every now and then, one does; who knows of something that is due does it at once', async () => {
  const schema = freshSchema()
  let now = 1_000_000
  const clock = { now: () => now, monotonic: () => now, after: () => () => {} }
  const [a, b] = await Promise.all([openStore(schema, clock), openStore(schema, clock)])
  const sweep = { limit: 100, keep: { completed: 100, dead: 100 } }
  const every = 5_000
  await a.sweep({ ...sweep, every })
  await a.insert([newJob({ id: 'late', delay: 100 })])
  now += 100
  expect(await b.sweep({ ...sweep, every })).toMatchObject({ promoted: 0 })
  expect(await b.sweep(sweep)).toMatchObject({ promoted: 1 })
  await a.insert([newJob({ id: 'later', delay: 100 })])
  now += every
  expect(await b.sweep({ ...sweep, every })).toMatchObject({ promoted: 1 })
  // Set back: what was written then is not taken for the future.
  await a.insert([newJob({ id: 'back', delay: 1 })])
  now -= every
  expect(await a.sweep({ ...sweep, every })).toMatchObject({ nextDue: every + 1 })
})

test('a sweep that looks at a job that is done keeps nobody from the next one of its lane', async () => {
  const schema = freshSchema()
  const store = await openStore(schema, undefined)
  await store.insert([newJob({ id: 'done' })])
  await settle(store, await claimOne(store), complete())
  await store.insert([newJob({ id: 'ready' })])
  await asAdmin(async (client) => {
    await client.query('BEGIN')
    await client.query(loading(schema).bound('byIds', [['done']]))
    expect((await claim(store, 1)).map(({ id }) => id)).toEqual(['ready'])
    await client.query('ROLLBACK')
  })
})

async function openStore(schema: string, clock: ConstructorParameters<typeof PostgresStore>[0]['clock']) {
  const store = new PostgresStore({ url: serverUrl(), schema, ...(clock && { clock }) })
  onTestFinished(() => store.close())
  await store.open()
  return store
}
