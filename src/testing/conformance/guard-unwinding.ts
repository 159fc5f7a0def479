import assert from 'node:assert/strict'
import type { Store } from '../../core/store.js'
import { foundBy, guarded } from './guard-jobs.js'
import { claimOne, complete, die, replay, retention, running, settle, sweep, type Test } from './helpers.js'
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

  test('one that was replayed has it as long as it takes', async ({ store, advance }) => {
    const job = await running(store, unwinds)
    await settle(store, job, die(), { report })
    await replay(store, job.id)
    await advance(retention.dead)
    await sweep(store)
    assert.equal((await foundBy(store)).status, 'busy')
  })
}

const unwinds = { ...guarded(), queue: 'main', unwinds: true }
const report = { progress: undefined, logs: undefined, steps: [done('s')] }
