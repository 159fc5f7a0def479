import assert from 'node:assert/strict'
import {
  claim,
  complete,
  idsOf,
  insertMany,
  insertOne,
  lease,
  read,
  running,
  settle,
  stateOf,
  statesOfAll,
  sweep,
  type Test,
} from './helpers.js'

export function configure(test: Test): void {
  test('a paused queue hands out nothing, the others go on', async ({ store }) => {
    await insertMany(store, 3)
    const other = await insertOne(store, { queue: 'other' })
    await store.configure({ queue: 'main', paused: true })
    assert.deepEqual((await store.counts()).paused, ['main'])
    assert.deepEqual(await claim(store, 5), [])
    assert.deepEqual(idsOf(await claim(store, 5, { queues: ['main', 'other'] })), [other])
  })

  test('room that a paused queue cannot use goes to the others', async ({ store }) => {
    await insertMany(store, 5)
    await insertMany(store, 5, { queue: 'other' })
    await store.configure({ queue: 'main', paused: true })
    assert.equal((await claim(store, 4, { queues: ['main', 'other'] })).length, 4)
  })

  test('pause and resume change no set and no order', async ({ store, advance }) => {
    const ids = await insertMany(store, 4)
    await insertOne(store, { delay: 5 })
    const before = await store.get(ids)
    const counted = await statesOfAll(store)
    await store.configure({ queue: 'main', paused: true })
    assert.deepEqual(await store.get(ids), before)
    assert.deepEqual(await statesOfAll(store), counted)
    await store.configure({ queue: 'main', paused: false })
    assert.deepEqual(await store.get(ids), before)
    assert.deepEqual(await statesOfAll(store), counted)
    assert.deepEqual((await store.counts()).paused, [])
    assert.deepEqual(idsOf(await claim(store, 10)), ids)
    await advance(5)
    assert.equal((await sweep(store)).promoted, 1)
  })

  test('pausing or resuming twice is as once; no setting changes nothing', async ({ store }) => {
    for (const paused of [true, true]) await store.configure({ queue: 'main', paused })
    assert.deepEqual((await store.counts()).paused, ['main'])
    for (const paused of [false, false]) await store.configure({ queue: 'main', paused })
    assert.deepEqual((await store.counts()).paused, [])
  })

  test('a queue can be paused before its first job', async ({ store }) => {
    await store.configure({ queue: 'future', paused: true })
    assert.deepEqual((await store.counts()).paused, ['future'])
    const id = await insertOne(store, { queue: 'future' })
    assert.deepEqual(await claim(store, 1, { queues: ['future'] }), [])
    await store.configure({ queue: 'future', paused: false })
    assert.deepEqual(idsOf(await claim(store, 1, { queues: ['future'] })), [id])
  })

  test('jobs of a paused queue that run can be extended, settled and rescued', async ({ store, advance }) => {
    const [done, lost] = [
      await running(store, { queue: 'main' }),
      await running(store, { queue: 'main' }, 'lost'),
    ]
    await store.configure({ queue: 'main', paused: true })
    assert.deepEqual((await store.extend({ worker: 'worker', lease, held: [] })).lost, [])
    assert.equal(await settle(store, done, complete()), 'applied')
    await advance(lease)
    assert.deepEqual(idsOf((await sweep(store)).orphans), [lost.id])
    const retry = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
    await store.operate({ ids: [done.id] }, retry)
    assert.equal(await stateOf(store, done.id), 'pending')
    assert.deepEqual(await claim(store, 5), [])
    assert.equal((await read(store, done.id)).attempt, 0)
  })
}
