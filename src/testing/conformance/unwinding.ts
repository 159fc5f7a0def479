import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { putOff, released, unstarted } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import {
  claimOne,
  complete,
  die,
  insertOne,
  lease,
  newJob,
  read,
  rescue,
  retryIn,
  running,
  settle,
  stateOf,
  statesOf,
  stop,
  sweep,
  type Test,
  totalOf,
} from './helpers.js'
import { done, sleeping, stepsOf } from './steps.js'
import { wait } from './waiting.js'

const unwinds = { queue: 'main', unwinds: true }
const cancel = { do: 'cancel', reason: 'not wanted', retain: 1_000 } as const

export function unwindingTests(test: Test): void {
  test('a job that has not started is cancelled as any other', async ({ store }) => {
    const ids = [await insertOne(store, unwinds), await insertOne(store, { ...unwinds, delay: 50 })]
    assert.deepEqual((await store.operate({ ids }, cancel)).affected, ids)
    for (const id of ids) assert.equal(await stateOf(store, id), 'cancelled')
  })

  for (const [name, change] of [
    ['completed', {}],
    ['dead', { fresh: true }],
  ] as const) {
    test(`one that was ${name} and is to begin anew has nothing to undo until it has begun`, async ({
      store,
    }) => {
      const job = await running(store, unwinds)
      const report = { progress: undefined, logs: undefined, steps: [done('s')] }
      await settle(store, job, name === 'dead' ? die() : complete(), { report })
      await store.operate({ ids: [job.id] }, { do: 'retry', delay: 0, spacing: 0, change })
      assert.equal((await read(store, job.id)).startedAt, undefined)
      assert.deepEqual((await store.operate({ ids: [job.id] }, cancel)).affected, [job.id])
      assert.equal(await stateOf(store, job.id), 'cancelled')
    })
  }

  test('one that died and goes on may have something to undo', async ({ store }) => {
    const job = await running(store, unwinds)
    await settle(store, job, die())
    await store.operate({ ids: [job.id] }, { do: 'retry', delay: 5, spacing: 0, change: {} })
    assert.deepEqual((await store.operate({ ids: [job.id] }, cancel)).asked, [job.id])
  })

  for (const [name, outcome] of [
    ['put off', putOff(5_000)],
    ['given back', unstarted()],
  ] as const) {
    test(`one that was only ${name} has not begun`, async ({ store }) => {
      const job = await running(store, unwinds)
      assert.equal(await settle(store, job, outcome), 'applied')
      assert.equal((await read(store, job.id)).startedAt, undefined)
      assert.deepEqual((await store.operate({ ids: [job.id] }, cancel)).affected, [job.id])
    })

    test(`one that is cancelled before it is ${name} ends with that, unless it began before`, async ({
      store,
    }) => {
      const job = await running(store, unwinds)
      await store.operate({ ids: [job.id] }, cancel)
      assert.equal(await settle(store, job, outcome), 'cancelled')
      assert.equal(await stateOf(store, job.id), 'cancelled')
      const begun = await running(store, unwinds)
      await settle(store, begun, released())
      const again = await claimOne(store)
      await store.operate({ ids: [begun.id] }, cancel)
      assert.equal(await settle(store, again, outcome), 'applied')
    })
  }

  for (const [name, leave] of [
    ['retrying', (store, job) => settle(store, job, retryIn(5_000))],
    ['ready again', (store, job) => settle(store, job, released())],
    [
      'asleep',
      (store, job) => wait(store, job, { until: Number.MAX_SAFE_INTEGER }, [sleeping('s', undefined)]),
    ],
  ] as readonly [string, (store: Store, job: ClaimedJob) => Promise<unknown>][]) {
    test(`one that is ${name} becomes ready, and its next claim tells why`, async ({ store }) => {
      const job = await running(store, unwinds)
      await leave(store, job)
      const report = await store.operate({ ids: [job.id] }, cancel)
      assert.deepEqual([report.asked, report.affected], [[job.id], []])
      assert.deepEqual(await statesOf(store), {
        ...(await statesOf(store)),
        pending: 1,
        blocked: 0,
        retrying: 0,
      })
      const again = await claimOne(store)
      assert.equal(again.cancelReason, 'not wanted')
      assert.equal((await sweep(store)).promoted, 0)
    })
  }

  test('one that runs is asked, comes back, and keeps the reason until it has ended', async ({
    store,
    advance,
  }) => {
    let job = await running(store, unwinds)
    assert.equal(job.cancelReason, undefined)
    assert.deepEqual((await store.operate({ ids: [job.id] }, cancel)).asked, [job.id])
    const held = [{ id: job.id, token: job.token, progress: undefined, logs: undefined }]
    const { cancels } = await store.extend({ worker: 'worker', lease, held })
    assert.deepEqual(cancels, [{ id: job.id, reason: 'not wanted' }])
    for (const outcome of [released(), retryIn(5)]) {
      assert.equal(await settle(store, job, outcome), 'applied')
      await advance(5)
      await sweep(store)
      job = await claimOne(store)
      assert.equal(job.cancelReason, 'not wanted')
    }
    assert.equal(await wait(store, job, { until: 0 }, [sleeping('s', 0)]), 'applied')
    job = await claimOne(store)
    assert.equal(job.cancelReason, 'not wanted')
    assert.equal((await stepsOf(store, job.id))?.[0]?.open, false)
    assert.equal(await settle(store, job, stop('undone')), 'applied')
    assert.equal((await read(store, job.id)).cancelReason, 'undone')
    assert.equal(await totalOf(store, 'cancelled'), 1)
  })

  test('a lost worker does not end it', async ({ store, advance }) => {
    const job = await running(store, unwinds)
    await store.operate({ ids: [job.id] }, cancel)
    await advance(lease)
    const { orphans } = await sweep(store)
    assert.equal(orphans[0]?.unwinds, true)
    for (const orphan of orphans) assert.equal(await rescue(store, orphan), 'applied')
    const heir = await claimOne(store, 'heir')
    assert.deepEqual([heir.id, heir.cancelReason, heir.crashes], [job.id, 'not wanted', 1])
  })

  test('a replay of one that died begins without the reason', async ({ store }) => {
    const job = await running(store, unwinds)
    await store.operate({ ids: [job.id] }, cancel)
    await settle(store, job, die())
    await store.operate({ ids: [job.id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    assert.equal((await claimOne(store)).cancelReason, undefined)
  })

  test('others are told no reason, and end as ever', async ({ store }) => {
    await store.insert([newJob()])
    const job = await claimOne(store)
    await store.operate({ ids: [job.id] }, cancel)
    assert.equal(await settle(store, job, released()), 'cancelled')
    await store.operate({ ids: [job.id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    const again = await claimOne(store)
    assert.equal(again.cancelReason, undefined)
    assert.equal(await settle(store, again, complete()), 'applied')
  })
}
