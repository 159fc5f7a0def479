import assert from 'node:assert/strict'
import type { NewFamily } from '../../core/family.js'
import type { Store } from '../../core/store.js'
import { childOf, parent } from './family-jobs.js'
import { foundBy, guarded } from './guard-jobs.js'
import {
  claimOne,
  complete,
  die,
  exists,
  replay,
  retention,
  running,
  settle,
  sweep,
  type Test,
} from './helpers.js'
import { done } from './steps.js'

export function guardUnwindingTests(test: Test): void {
  for (const [what, end, found] of [
    ['is removed', (store: Store, id: string) => store.operate({ ids: [id] }, { do: 'remove' }), 'begun'],
    [
      'is replayed and completes',
      async (store: Store, id: string) => {
        await replay(store, id)
        const job = await claimOne(store)
        assert.equal(job.guard?.status, 'begun')
        await settle(store, job, complete('1'))
      },
      'done',
    ],
    [
      'is replayed under another key',
      (store: Store, id: string) => replay(store, id, { guard: { key: 'other', retain: 1_000 } }),
      'begun',
    ],
  ] as const) {
    test(`a job that unwinds and died, with steps or not, has its key until it ${what}`, async ({
      store,
      advance,
    }) => {
      const job = await running(store, unwinds)
      await settle(store, job, die())
      assert.equal((await foundBy(store)).status, 'busy')
      await advance(retention.dead - 1)
      await sweep(store)
      assert.equal((await foundBy(store)).status, 'busy')
      await end(store, job.id)
      assert.equal((await foundBy(store)).status, found)
    })
  }

  test('its key is free when it is kept no longer', async ({ store, advance }) => {
    await settle(store, await running(store, unwinds), die(undefined, { completed: 0, dead: 0 }), { report })
    const job = await running(store, unwinds)
    assert.equal(job.guard?.status, 'begun')
    await settle(store, job, die(), { report })
    await advance(retention.dead)
    await sweep(store)
    assert.equal((await foundBy(store)).status, 'begun')
  })

  test('one that stays has its key as long as it is there, and another has it afterwards', async ({
    store,
    advance,
  }) => {
    const last = parent({ queue: 'main' })
    const job = childOf([last], unwinds)
    await store.insert([last, { ...job, family: { ...(job.family as NewFamily), stays: true } }])
    await settle(store, await claimOne(store), die())
    await settle(store, await claimOne(store), die(undefined, { completed: 0, dead: 9 * hour }))
    for (let i = 0; i < 3; i++) {
      await advance(hour)
      await sweep(store)
      assert.deepEqual([await exists(store, job.id), (await foundBy(store)).status], [true, 'busy'])
    }
    await store.operate({ ids: [last.id] }, { do: 'remove' })
    await advance(hour)
    await sweep(store)
    assert.deepEqual([await exists(store, job.id), (await foundBy(store)).status], [false, 'begun'])
  })

  test('one that was replayed has it as long as it takes', async ({ store, advance }) => {
    const job = await running(store, unwinds)
    await settle(store, job, die(), { report })
    await replay(store, job.id)
    await advance(retention.dead)
    await sweep(store)
    assert.equal((await foundBy(store)).status, 'busy')
  })
}

const hour = 3_600_000
const unwinds = { ...guarded(), queue: 'main', unwinds: true }
const report = { progress: undefined, logs: undefined, steps: [done('s')] }
