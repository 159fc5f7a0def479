import assert from 'node:assert/strict'
import type { NewJob } from '../../core/job.js'
import type { InsertResult, Store } from '../../core/store.js'
import type { DepthPolicy } from '../../core/traffic/depth.js'
import { claim, complete, newJob, newJobs, settle, statesOf, sweep, type Test, totalOf } from './helpers.js'

export function depthTests(test: Test): void {
  test('a queue without a limit takes all', async ({ store }) => {
    assert.deepEqual(await statuses(store, 50), { inserted: 50 })
  })

  test('reject: full at max, and then until low', async ({ store }) => {
    await limit(store, { max: 10, low: 5 })
    assert.deepEqual(await statuses(store, 12), { inserted: 10, full: 2 })
    const [refused] = await store.insert([newJob()])
    assert.deepEqual(refused, {
      status: 'full',
      state: undefined,
      overflow: { depth: 10, limit: 10, wait: false },
    })
    await claim(store, 4)
    assert.deepEqual(await statuses(store, 1), { full: 1 })
    await claim(store, 1)
    assert.deepEqual(await statuses(store, 10), { inserted: 5, full: 5 })
    assert.equal((await statesOf(store)).pending, 10)
    assert.equal(await totalOf(store, 'enqueued'), 15)
  })

  test('the limit is of one queue', async ({ store }) => {
    await limit(store, { max: 1, low: 0 })
    assert.deepEqual(await statuses(store, 3), { inserted: 1, full: 2 })
    assert.deepEqual(await statuses(store, 3, { queue: 'other' }), { inserted: 3 })
  })

  test('a lane has a limit of its own', async ({ store }) => {
    await limit(store, { max: 100, low: 80, lanes: [null, null, null, { max: 2, low: 1 }] })
    assert.deepEqual(await statuses(store, 4, { lane: 3 }), { inserted: 2, full: 2 })
    assert.deepEqual(await statuses(store, 4, { lane: 2 }), { inserted: 4 })
  })

  test('jobs that are due later, come back or exist already are not refused', async ({ store, advance }) => {
    await limit(store, { max: 2, low: 1 })
    const jobs = newJobs(2)
    await store.insert(jobs)
    assert.deepEqual(
      (await store.insert(jobs)).map(({ status }) => status),
      ['duplicate', 'duplicate'],
    )
    assert.deepEqual(await statuses(store, 3, { delay: 10 }), { inserted: 3 })
    await advance(10)
    assert.equal((await sweep(store)).promoted, 3)
    assert.equal((await statesOf(store)).pending, 5)
    assert.deepEqual(await statuses(store, 1), { full: 1 })
  })

  test('what a handler adds is taken even then', async ({ store }) => {
    await limit(store, { max: 1, low: 0 })
    await store.insert([newJob()])
    const [job] = await claim(store)
    assert.ok(job)
    await store.insert([newJob()])
    assert.equal(await settle(store, job, complete(), { inserts: newJobs(3) }), 'applied')
    assert.equal((await statesOf(store)).pending, 4)
  })

  test('wait says so', async ({ store }) => {
    await limit(store, { max: 1, low: 0, overflow: 'wait' })
    const [, refused] = await store.insert(newJobs(2))
    assert.equal(refused?.overflow?.wait, true)
  })

  test('shed: lanes give way one after the other, the critical one is refused', async ({ store }) => {
    await limit(store, { overflow: 'shed', max: 10, low: 8, shedAt: [1, 0.9, 0.7, 0.5] })
    assert.deepEqual(await statuses(store, 6, { lane: 3 }), { inserted: 5, shed: 1 })
    assert.deepEqual(await statuses(store, 3, { lane: 2 }), { inserted: 2, shed: 1 })
    assert.deepEqual(await statuses(store, 3, { lane: 1 }), { inserted: 2, shed: 1 })
    assert.deepEqual(await statuses(store, 3, { lane: 0 }), { inserted: 1, full: 2 })
    assert.equal(await totalOf(store, 'shed'), 3)
    assert.equal(await totalOf(store, 'enqueued'), 10)
    await claim(store, 6)
    assert.deepEqual(await statuses(store, 1, { lane: 3 }), { inserted: 1 })
  })

  test('shed with defer puts jobs off and counts them', async ({ store, advance }) => {
    await limit(store, { overflow: 'shed', max: 2, low: 1, shedAt: [1, 1, 1, 0.5], defer: 100 })
    assert.deepEqual(await statuses(store, 3, { lane: 3 }), { inserted: 1, deferred: 2 })
    assert.deepEqual(await states(store), { pending: 1, scheduled: 2 })
    assert.equal(await totalOf(store, 'deferred'), 2)
    await advance(100)
    assert.equal((await sweep(store)).promoted, 2)
  })

  test('the limit is changed and taken away at run time', async ({ store }) => {
    await limit(store, { max: 2, low: 1 })
    assert.deepEqual(await statuses(store, 3), { inserted: 2, full: 1 })
    await limit(store, { max: 4, low: 3 })
    assert.deepEqual(await statuses(store, 3), { inserted: 2, full: 1 })
    await store.configure({ gate: { of: 'queue', name: 'main' }, change: { depth: null }, declared: false })
    assert.deepEqual(await statuses(store, 3), { inserted: 3 })
  })
}

export async function limit(store: Store, policy: Partial<DepthPolicy>): Promise<void> {
  const depth: DepthPolicy = {
    max: 10,
    low: 8,
    lanes: [null, null, null, null],
    overflow: 'reject',
    defer: 0,
    shedAt: [1, 0.9, 0.75, 0.5],
    ...policy,
  }
  await store.configure({ gate: { of: 'queue', name: 'main' }, change: { depth }, declared: false })
}

/** How many jobs got which answer. */
async function statuses(
  store: Store,
  count: number,
  fields: Partial<NewJob> = {},
): Promise<Partial<Record<InsertResult['status'], number>>> {
  const counts: Partial<Record<InsertResult['status'], number>> = {}
  for (const { status } of await store.insert(newJobs(count, fields)))
    counts[status] = (counts[status] ?? 0) + 1
  return counts
}

async function states(store: Store): Promise<Record<string, number>> {
  return Object.fromEntries(Object.entries(await statesOf(store)).filter(([, n]) => n > 0))
}
