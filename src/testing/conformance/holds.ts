/** The other side says when to come back: a key, or a definition, is held until then. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { limited } from '../../core/lifecycle.js'
import {
  claim,
  claimOne,
  complete,
  idsOf,
  insertMany,
  insertOne,
  nextSignal,
  read,
  settle,
  type Test,
} from './helpers.js'
import { ask, choose, gateOf, jobGate, keyGate, withKey } from './traffic-helpers.js'

export function holdTests(test: Test): void {
  test('a hold closes the key for its time, spends no attempt, and leaves other keys alone', async ({
    store,
    advance,
  }) => {
    const [first] = await insertMany(store, 3, { traffic: withKey('k') })
    const other = await insertOne(store, { traffic: withKey('other') })
    const job = await claimOne(store)
    assert.equal(await settle(store, job, limited(500)), 'applied')
    assert.deepEqual([(await read(store, job.id)).state, (await read(store, job.id)).attempt], ['pending', 0])
    const { claimed, opens } = await ask(store, 9)
    assert.deepEqual([idsOf(claimed), opens], [[other], 500])
    await advance(499)
    assert.deepEqual((await ask(store, 9)).opens, 1)
    assert.deepEqual(await claim(store, 9), [])
    const gate = await gateOf(store, keyGate('k'))
    assert.deepEqual([gate?.room, gate?.pending, gate?.running], [0, 3, 0])
    await advance(1)
    const again = await claim(store, 9)
    assert.equal(again.length, 3)
    assert.deepEqual(again.find(({ id }) => id === first)?.attempt, 1)
  })

  test('a hold of a job without a key closes its definition, in all queues', async ({ store, advance }) => {
    await insertMany(store, 3)
    await insertMany(store, 3, { queue: 'other' })
    const free = await insertOne(store, { name: 'free' })
    const job = await claimOne(store)
    await settle(store, job, limited(200))
    const { claimed, opens } = await ask(store, 9, 'worker', ['main', 'other'])
    assert.deepEqual([idsOf(claimed), opens], [[free], 200])
    await advance(200)
    assert.equal((await claim(store, 9, { queues: ['main', 'other'] })).length, 6)
  })

  for (const [whose, traffic, gate] of [
    ['a key', withKey('k'), keyGate('k')],
    ['a definition', undefined, jobGate()],
  ] as const) {
    test(`an operator can end the hold of ${whose}`, async ({ store }) => {
      await insertMany(store, 3, { traffic })
      await settle(store, await claimOne(store), limited(86_400_000))
      assert.deepEqual(await claim(store, 9), [])
      const told = nextSignal(store, ({ type }) => type === 'ready')
      await store.configure({ gate, release: true })
      await told
      assert.equal((await claim(store, 9)).length, 3)
      await store.configure({ gate: keyGate('nobody'), release: true })
    })
  }

  test('the end of a hold that nobody told changes nothing', async ({ store }) => {
    await insertMany(store, 5, { traffic: withKey('k') })
    await store.configure({ gate: jobGate(), release: true })
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    assert.equal((await claim(store, 9)).length, 1)
  })

  test('a hold of a job without a key counts nobody twice', async ({ store, advance }) => {
    await insertMany(store, 9)
    const [first, second, third] = await claim(store, 3)
    await settle(store, first as ClaimedJob, limited(10))
    const gate = await gateOf(store, jobGate())
    assert.equal(gate?.running, 2, 'two run on')
    await choose(store, jobGate(), { limit: { concurrency: 2 } })
    await advance(10)
    assert.deepEqual(await claim(store, 9), [], 'so there is no room')
    await settle(store, second as ClaimedJob, complete())
    await settle(store, third as ClaimedJob, complete())
    assert.equal((await claim(store, 9)).length, 2)
  })

  test('the longer of two holds counts, whichever came first', async ({ store, advance }) => {
    for (const [queue, holds] of [
      ['a', [100, 50]],
      ['b', [50, 100]],
    ] as const) {
      await insertMany(store, 2, { queue, traffic: withKey(queue) })
      const jobs = await claim(store, 2, { queues: [queue] })
      for (const [i, hold] of holds.entries()) await settle(store, jobs[i] as ClaimedJob, limited(hold))
    }
    const queues = ['a', 'b']
    await advance(99)
    assert.deepEqual(await claim(store, 9, { queues }), [])
    await advance(1)
    assert.equal((await claim(store, 9, { queues })).length, 4)
  })

  test('jobs that come while their key is held wait for it as well, in order', async ({ store, advance }) => {
    const [first, second] = await insertMany(store, 2, { traffic: withKey('k') })
    await settle(store, await claimOne(store), limited(50))
    const third = await insertOne(store, { traffic: withKey('k') })
    assert.deepEqual(await claim(store, 9), [])
    await advance(50)
    assert.deepEqual(idsOf(await claim(store, 9)), [first, second, third])
  })
}
