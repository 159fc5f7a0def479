/** A worker that stops extending, for good or for a while. */
import assert from 'node:assert/strict'
import { released, snoozed } from '../../core/lifecycle.js'
import type { OrphanedJob, Store } from '../../core/store.js'
import { held } from './extend.js'
import {
  claim,
  claimOne,
  complete,
  exists,
  idsOf,
  insertMany,
  insertOne,
  lease,
  read,
  rescue,
  retryIn,
  running,
  settle,
  stateOf,
  statesOf,
  sweep,
  type Test,
  totalOf,
} from './helpers.js'

export function crash(test: Test): void {
  test('a rescued job is pending again; the attempt is spent and the crash is counted', async ({
    store,
    advance,
  }) => {
    const id = await insertOne(store)
    await claimOne(store, 'lost')
    await advance(lease)
    assert.equal(await rescue(store, await orphanOf(store)), 'applied')
    const record = await read(store, id)
    assert.deepEqual(
      [record.state, record.attempt, record.crashes, record.worker],
      ['pending', 1, 1, undefined],
    )
    assert.equal(record.failure?.message, 'the worker was lost')
    assert.deepEqual((await sweep(store)).orphans, [])
    const next = await claimOne(store, 'next')
    assert.deepEqual([next.id, next.attempt, next.crashes], [id, 2, 1])
  })

  test('a rescued job is ahead of those that have not run yet', async ({ store, advance }) => {
    const [first, second] = await insertMany(store, 2)
    await claimOne(store, 'lost')
    await advance(lease)
    await rescue(store, await orphanOf(store))
    assert.deepEqual(idsOf(await claim(store, 2)), [first, second])
  })

  test('after as many crashes as its cap a job is dead, however many attempts are left', async ({
    store,
    advance,
  }) => {
    const id = await insertOne(store, { maxCrashes: 3, maxAttempts: 100 })
    for (let crashes = 1; crashes <= 3; crashes++) {
      const job = await claimOne(store, `lost-${crashes}`)
      assert.deepEqual([job.attempt, job.crashes], [crashes, crashes - 1])
      await advance(lease)
      const orphan = await orphanOf(store)
      assert.deepEqual([orphan.crashes, orphan.maxCrashes], [crashes - 1, 3])
      await rescue(store, orphan)
      assert.equal(await stateOf(store, id), crashes === 3 ? 'dead' : 'pending')
    }
    const record = await read(store, id)
    assert.deepEqual([record.attempt, record.crashes], [3, 3])
    assert.ok(record.finishedAt !== undefined && record.expiresAt !== undefined)
    assert.deepEqual(await claim(store), [])
    const causes = await store.causes()
    assert.deepEqual(
      causes.map(({ cause, count }) => [cause, count]),
      [[record.failure?.cause, 1]],
    )
    assert.equal(await totalOf(store, 'crashed'), 3)
    assert.equal(await totalOf(store, 'dead'), 1)
  })

  test('attempts in excess of the maximum are possible by crashes alone, and end there', async ({
    store,
    advance,
  }) => {
    await insertOne(store, { maxAttempts: 1, maxCrashes: 2 })
    await claimOne(store, 'lost')
    await advance(lease)
    await rescue(store, await orphanOf(store))
    const job = await claimOne(store)
    assert.deepEqual([job.attempt, job.maxAttempts, job.crashes], [2, 1, 1])
  })

  test('crashes are remembered through failures, releases and snoozes', async ({ store, advance }) => {
    const id = await insertOne(store)
    await claimOne(store, 'lost')
    await advance(lease)
    await rescue(store, await orphanOf(store))
    for (const outcome of [released(), snoozed(5), retryIn(5)]) {
      const job = await claimOne(store)
      assert.deepEqual([job.attempt, job.crashes], [2, 1])
      assert.equal(await settle(store, job, outcome), 'applied')
      await advance(5)
      await sweep(store)
    }
    const record = await read(store, id)
    assert.deepEqual([record.attempt, record.crashes], [2, 1])
  })

  test('a worker that is back before anybody rescued keeps its jobs', async ({ store, advance }) => {
    const [a, b, c] = await threeOf(store, 'sleepy')
    await advance(lease * 10)
    assert.equal((await sweep(store)).orphans.length, 3)
    const { lost } = await store.extend({ worker: 'sleepy', lease, held: [held(a), held(b), held(c)] })
    assert.deepEqual(lost, [])
    assert.deepEqual((await sweep(store)).orphans, [])
    assert.equal(await settle(store, a, complete(), { worker: 'sleepy' }), 'applied')
    const record = await read(store, b.id)
    assert.deepEqual([record.state, record.attempt, record.crashes], ['running', 1, 0])
  })

  test('a claim too brings a worker back', async ({ store, advance }) => {
    const [a] = await threeOf(store, 'sleepy')
    await advance(lease)
    const [named] = (await sweep(store)).orphans as [OrphanedJob]
    await running(store, {}, 'sleepy')
    assert.equal(await rescue(store, named), 'lost')
    assert.equal(await settle(store, a, complete(), { worker: 'sleepy' }), 'applied')
  })

  test('a settlement that comes after the lease and before a rescue counts', async ({ store, advance }) => {
    const [a, b, c] = await threeOf(store, 'sleepy')
    await advance(lease * 2)
    await sweep(store)
    assert.equal(await settle(store, a, complete('1'), { worker: 'sleepy' }), 'applied')
    assert.equal(await stateOf(store, a.id), 'completed')
    const { orphans } = await sweep(store)
    assert.deepEqual(idsOf(orphans).sort(), [b.id, c.id].sort(), 'and does not bring the worker back')
    for (const orphan of orphans) assert.equal(await rescue(store, orphan), 'applied')
    assert.equal(await settle(store, b, complete(), { worker: 'sleepy' }), 'lost')
  })

  test('a worker that lost some of its jobs keeps the others', async ({ store, advance }) => {
    const [a, b, c] = await threeOf(store, 'sleepy')
    await advance(lease)
    const named = (await sweep(store)).orphans.find(({ id }) => id === b.id)
    await rescue(store, named as OrphanedJob)
    const { lost } = await store.extend({ worker: 'sleepy', lease, held: [held(a), held(b), held(c)] })
    assert.deepEqual(lost, [b.id])
    assert.equal(await settle(store, a, complete(), { worker: 'sleepy' }), 'applied')
    assert.equal(await settle(store, b, complete(), { worker: 'sleepy' }), 'lost')
    assert.equal(await settle(store, c, complete(), { worker: 'sleepy' }), 'applied')
    const { completed, pending, running } = await statesOf(store)
    assert.deepEqual([completed, pending, running], [2, 1, 0])
  })

  test('a lost worker that was asked to cancel: the job is cancelled, not run again', async ({
    store,
    advance,
  }) => {
    const job = await running(store, {}, 'lost')
    await store.operate({ ids: [job.id] }, { do: 'cancel', reason: 'not wanted', retain: 1_000 })
    await advance(lease)
    assert.equal(await rescue(store, await orphanOf(store)), 'applied')
    const record = await read(store, job.id)
    assert.deepEqual([record.state, record.cancelReason, record.crashes], ['cancelled', 'not wanted', 1])
    assert.deepEqual(await claim(store, 5, { queues: [job.queue] }), [])
    assert.equal(await totalOf(store, 'cancelled', job.queue), 1)
  })

  test('a rescue that keeps nothing removes', async ({ store, advance }) => {
    const job = await running(store, { maxCrashes: 1 }, 'lost')
    await advance(lease)
    assert.equal(await rescue(store, await orphanOf(store), { completed: 0, dead: 0 }), 'applied')
    assert.equal(await exists(store, job.id), false)
    assert.deepEqual(await store.causes(), [])
  })

  test('rescued or not, a lost worker starts anew under its name', async ({ store, advance }) => {
    await insertOne(store)
    await claimOne(store, 'w')
    await advance(lease)
    await rescue(store, await orphanOf(store))
    await sweep(store)
    const job = await claimOne(store, 'w')
    assert.equal(job.attempt, 2)
    await advance(lease - 1)
    assert.deepEqual((await sweep(store)).orphans, [])
    assert.equal(await settle(store, job, complete(), { worker: 'w' }), 'applied')
  })

  async function threeOf(store: Store, worker: string) {
    await insertMany(store, 3)
    const claimed = await claim(store, 3, { worker })
    return claimed as unknown as [(typeof claimed)[0], (typeof claimed)[0], (typeof claimed)[0]]
  }
}

async function orphanOf(store: Store): Promise<OrphanedJob> {
  const { orphans } = await sweep(store)
  assert.equal(orphans.length, 1)
  return orphans[0] as OrphanedJob
}
