import assert from 'node:assert/strict'
import { released } from '../../core/lifecycle.js'
import type { Inventory, LeasedJob, Store, Stray } from '../../core/store.js'
import { held } from './extend.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  idsOf,
  insertMany,
  insertOne,
  lease,
  read,
  settle,
  sorted,
  sweep,
  type Test,
} from './helpers.js'

/** Jobs under the lease of a worker that lives and does not have them. */
export function strayTests(test: Test): void {
  test('a claim whose answer never came is named once it is a lease old', async ({ store, advance }) => {
    const ids = await insertMany(store, 3)
    const request = claimRequest(3)
    await store.exchange({ worker: 'worker', settlements: [], claim: request })
    await advance(lease - 1)
    assert.deepEqual(await straysOf(store), [])
    await advance(1)
    const strays = await straysOf(store)
    assert.deepEqual(sorted(idsOf(strays)), sorted(ids))
    for (const { claim, name, queue } of strays)
      assert.deepEqual([claim, name, queue], [request.token, 'greet', 'main'])
  })

  test('given back, a stray is as it was before: no attempt and no crash', async ({ store, advance }) => {
    const id = await insertOne(store, { maxAttempts: 1, maxCrashes: 1 })
    await claimOne(store)
    await advance(lease)
    const [stray] = await straysOf(store)
    assert.equal(await settle(store, stray as Stray, released()), 'applied')
    assert.deepEqual(await straysOf(store), [])
    const { state, attempt, crashes } = await read(store, id)
    assert.deepEqual([state, attempt, crashes], ['pending', 0, 0])
    assert.equal(await settle(store, await claimOne(store), complete()), 'applied')
  })

  test('what the worker has, settles or claims is none', async ({ store, advance }) => {
    await insertMany(store, 3)
    const [runs] = await claim(store, 1)
    const [leaves] = await claim(store, 1)
    const claiming = claimRequest(1)
    await store.exchange({ worker: 'worker', settlements: [], claim: claiming })
    await advance(lease)
    const inventory = { leaving: [leaves as LeasedJob], claiming: [claiming.token] }
    const all = [held(runs as LeasedJob)]
    assert.deepEqual(
      (await store.extend({ worker: 'worker', lease, held: all, inventory })).strays,
      [],
      'all of it is known',
    )
    assert.deepEqual((await store.extend({ worker: 'worker', lease, held: [] })).strays, [], 'nobody asked')
    assert.equal((await straysOf(store, { leaving: [], claiming: [claiming.token] })).length, 2)
  })

  test('one job of a claim may be a stray while the others run', async ({ store, advance }) => {
    await insertMany(store, 4)
    const [a, b, c, d] = (await claim(store, 4)) as readonly LeasedJob[]
    await settle(store, d as LeasedJob, complete())
    await advance(lease)
    const inventory = { leaving: [c as LeasedJob], claiming: [] }
    const { strays, lost } = await store.extend({
      worker: 'worker',
      lease,
      held: [held(a as LeasedJob)],
      inventory,
    })
    assert.deepEqual(lost, [])
    assert.deepEqual(idsOf(strays), [b?.id])
    assert.equal(strays[0]?.token, b?.token)
  })

  test('jobs with limits, groups and keys too; those of other workers are none', async ({
    store,
    advance,
  }) => {
    const traffic = { gated: true, group: 'a', key: 'k' }
    await store.configure({
      gate: { of: 'queue', name: 'main' },
      change: { limit: { concurrency: 1 } },
      declared: true,
    })
    const id = await insertOne(store, { traffic })
    await insertOne(store, { queue: 'other' })
    await claim(store, 1)
    await claim(store, 1, { worker: 'another', queues: ['other'] })
    await advance(lease)
    const [stray, ...others] = await straysOf(store)
    assert.deepEqual([stray?.id, others], [id, []])
    await settle(store, stray as Stray, released())
    assert.equal((await claimOne(store)).id, id, 'its place is free again')
  })

  test('a stray of a worker that is lost meanwhile is an orphan', async ({ store, advance }) => {
    await insertOne(store)
    await claimOne(store)
    await advance(lease)
    assert.equal((await straysOf(store)).length, 1)
    await advance(lease)
    assert.equal((await sweep(store)).orphans.length, 1)
  })
}

const nothing: Inventory = { leaving: [], claiming: [] }

async function straysOf(store: Store, inventory = nothing): Promise<readonly Stray[]> {
  return (await store.extend({ worker: 'worker', lease, held: [], inventory })).strays
}
