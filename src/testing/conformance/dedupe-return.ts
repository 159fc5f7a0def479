/** The newest job of a key has the last word: an older one does not come back once a newer has the key. */
import assert from 'node:assert/strict'
import type { NewJob } from '../../core/job.js'
import type { DedupeMode } from '../../core/traffic/dedupe.js'
import {
  claim,
  claimOne,
  complete,
  die,
  insertOne,
  newJob,
  read,
  retryIn,
  settle,
  stateOf,
  sweep,
  type Test,
} from './helpers.js'

const newest = ['debounce', 'replace', 'keep-last'] as const

export function dedupeReturnTests(test: Test): void {
  for (const mode of newest) {
    test(`${mode}: what a newer job has overtaken does not come back`, async ({ store }) => {
      const old = await insertOne(store, { ...rule(mode), input: '"old"' })
      await sweep(store)
      const job = await claimOne(store)
      const newer = await insertOne(store, { ...rule(mode), input: '"new"' })
      assert.equal(await settle(store, job, retryIn(10)), 'cancelled')
      const record = await read(store, old)
      assert.equal(record.state, 'cancelled')
      assert.ok(record.cancelReason?.includes('newer'))
      await sweep(store)
      assert.equal((await claimOne(store)).id, newer)
    })

    for (const retain of [0, 60_000]) {
      test(`${mode}: nor when the newer one has completed, kept for ${retain} ms`, async ({ store }) => {
        await insertOne(store, rule(mode))
        await sweep(store)
        const old = await claimOne(store)
        await insertOne(store, rule(mode))
        await sweep(store)
        const keep = { completed: retain, dead: retain }
        assert.equal(await settle(store, await claimOne(store), complete(undefined, keep)), 'applied')
        assert.equal(await settle(store, old, retryIn(10)), 'cancelled')
      })

      test(`${mode}: it does when the newer one was cancelled, kept for ${retain} ms`, async ({ store }) => {
        await insertOne(store, rule(mode))
        await sweep(store)
        const old = await claimOne(store)
        const newer = await insertOne(store, rule(mode))
        const { affected } = await store.operate({ ids: [newer] }, { do: 'cancel', reason: 'no', retain })
        assert.deepEqual(affected, [newer])
        assert.equal(await settle(store, old, retryIn(60_000)), 'applied')
        // The key is its own again.
        const [result] = await store.insert([newJob(rule(mode))])
        assert.deepEqual([result?.status, result?.id], ['replaced', old.id])
      })
    }

    test(`${mode}: it does when the newer one was removed`, async ({ store }) => {
      await insertOne(store, rule(mode))
      await sweep(store)
      const old = await claimOne(store)
      const newer = await insertOne(store, rule(mode))
      await store.operate({ ids: [newer] }, { do: 'remove' })
      assert.equal(await settle(store, old, retryIn(10)), 'applied')
      assert.equal(await stateOf(store, old.id), 'retrying')
    })

    test(`${mode}: it does when the newer one was stopped while it ran`, async ({ store }) => {
      await insertOne(store, rule(mode))
      await sweep(store)
      const old = await claimOne(store)
      await insertOne(store, rule(mode))
      await sweep(store)
      const newer = await claimOne(store)
      await store.operate({ ids: [newer.id] }, { do: 'cancel', reason: 'no', retain: 60_000 })
      assert.equal(await settle(store, newer, retryIn(10)), 'cancelled')
      assert.equal(await settle(store, old, retryIn(10)), 'applied')
    })

    test(`${mode}: a dead one that is replayed has the key again, unless another waits`, async ({
      store,
    }) => {
      const old = await insertOne(store, rule(mode))
      await sweep(store)
      await settle(store, await claimOne(store), die())
      const newer = await insertOne(store, rule(mode))
      await sweep(store)
      await settle(store, await claimOne(store), complete())
      const replay = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
      assert.deepEqual((await store.operate({ ids: [old] }, replay)).affected, [old])
      assert.equal(await settle(store, await claimOne(store), retryIn(10)), 'applied')
      await store.operate({ ids: [old] }, { do: 'promote' })
      await settle(store, await claimOne(store), die())

      await insertOne(store, { ...rule(mode), delay: 60_000 })
      await store.operate({ ids: [old] }, replay)
      assert.equal(await settle(store, await claimOne(store), retryIn(10)), 'cancelled')
      assert.equal(await stateOf(store, newer), 'completed')
    })

    test(`${mode}: nor when the newer one ended long ago`, async ({ store, advance }) => {
      await insertOne(store, rule(mode))
      await sweep(store)
      const old = await claimOne(store, 'slow')
      await insertOne(store, rule(mode))
      await sweep(store)
      await settle(store, await claimOne(store), complete(undefined, { completed: 0, dead: 0 }))
      for (let minutes = 0; minutes < 60; minutes += 5) {
        await store.extend({ worker: 'slow', lease: 600_000, held: [] })
        await advance(300_000)
        await sweep(store)
      }
      assert.equal(await settle(store, old, retryIn(10), { worker: 'slow' }), 'cancelled')
    })

    test(`${mode}: one that is replayed with another input has another key`, async ({ store }) => {
      const old = await insertOne(store, rule(mode))
      await sweep(store)
      await settle(store, await claimOne(store), die())
      const change = { input: '"other"', dedupe: { key: 'other', mode, window: 0, most: 0 } }
      await store.operate({ ids: [old] }, { do: 'retry', delay: 60_000, spacing: 0, change })
      const [same] = await store.insert([newJob(rule(mode))])
      assert.equal(same?.status, 'inserted')
      const [other] = await store.insert([newJob(rule(mode, 'other'))])
      assert.deepEqual([other?.status, other?.id], ['replaced', old])
    })
  }

  test('debounce: a replay counts as new', async ({ store, advance }) => {
    const dedupe = { key: 'k', mode: 'debounce', window: 100, most: 300 } as const
    const old = await insertOne(store, { dedupe })
    await advance(100)
    await sweep(store)
    await settle(store, await claimOne(store), die())
    await advance(10_000)
    await store.operate({ ids: [old] }, { do: 'retry', delay: 500, spacing: 0, change: {} })
    const [result] = await store.insert([newJob({ dedupe })])
    assert.deepEqual([result?.status, result?.state, result?.id], ['replaced', 'scheduled', old])
  })

  test('a job that took the place of another goes by its own rule', async ({ store }) => {
    const first = await insertOne(store, { ...rule('until-done'), input: '1' })
    const [result] = await store.insert([newJob({ ...rule('replace'), input: '2' })])
    assert.deepEqual([result?.status, result?.id], ['replaced', first])
    const job = await claimOne(store)
    await insertOne(store, { ...rule('replace'), input: '3' })
    assert.equal(await settle(store, job, retryIn(10)), 'cancelled')
  })

  test('an id that is used again is not taken for the job that had the key', async ({ store, advance }) => {
    const id = await insertOne(store, rule('until-done'))
    await settle(store, await claimOne(store), complete(undefined, { completed: 0, dead: 0 }))
    await advance(1)
    await store.insert([newJob({ id })])
    const [result] = await store.insert([newJob(rule('until-done'))])
    assert.equal(result?.status, 'inserted')
    assert.equal((await claim(store, 5)).length, 2)
  })

  test('until-done and throttle: a job that has the key comes back as ever', async ({ store }) => {
    for (const mode of ['until-done', 'throttle'] as const) {
      await insertOne(store, rule(mode, mode))
      const job = await claimOne(store)
      await store.insert([newJob(rule(mode, mode))])
      assert.equal(await settle(store, job, retryIn(60_000)), 'applied')
    }
  })
}

/** Debounced jobs start at once, so that all modes are played alike. */
function rule(mode: DedupeMode, key = 'k'): Partial<NewJob> {
  return { dedupe: { key, mode, window: 0, most: 0 } }
}
