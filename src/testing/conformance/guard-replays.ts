import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { released, snoozed } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import { childOf, ofChild, parent } from './family-jobs.js'
import { as, day, foundBy, guarded } from './guard-jobs.js'
import {
  claim,
  claimOne,
  complete,
  die,
  insertMany,
  insertOne,
  replay,
  retryIn,
  settle,
  stateOf,
  statesOf,
  stop,
  sweep,
  type Test,
} from './helpers.js'

export function guardReplayTests(test: Test): void {
  test('a dead job that is replayed takes the key again, or waits for who has it now', async ({ store }) => {
    const [dead, other] = await insertMany(store, 2, guarded())
    const [first, second] = await claim(store, 2)
    await settle(store, as(second), snoozed(60_000))
    await settle(store, as(first), die())
    await store.operate({ ids: [other as string] }, { do: 'promote' })
    const holder = await claimOne(store)
    assert.deepEqual([holder.id, holder.guard?.status], [other, 'begun'])
    await replay(store, dead as string)
    const replayed = await claimOne(store)
    assert.deepEqual([replayed.id, replayed.guard?.status], [dead, 'busy'])
    await settle(store, holder, die())
    await settle(store, replayed, released())
    assert.equal((await claimOne(store)).guard?.status, 'begun')
  })

  test('a completed job that is replayed runs again: its own record does not stop it', async ({ store }) => {
    const id = await insertOne(store, guarded())
    await settle(store, await claimOne(store), complete('1'))
    await replay(store, id)
    const again = await claimOne(store)
    assert.equal(again.guard?.status, 'begun')
    await settle(store, again, complete('2'))
    assert.equal((await foundBy(store)).result, '2')
  })

  for (const [what, end] of [
    ['dies', (store: Store, job: ClaimedJob) => settle(store, job, die())],
    ['is cancelled', (store: Store, job: ClaimedJob) => settle(store, job, stop())],
    [
      'dies and is not kept',
      (store: Store, job: ClaimedJob) => settle(store, job, die(undefined, { completed: 0, dead: 0 })),
    ],
    [
      'is cancelled between attempts',
      async (store: Store, job: ClaimedJob) => {
        await settle(store, job, retryIn(60_000))
        await store.operate({ ids: [job.id] }, { do: 'cancel', reason: 'no', retain: 1_000 })
      },
    ],
    [
      'is removed between attempts',
      async (store: Store, job: ClaimedJob) => {
        await settle(store, job, retryIn(60_000))
        await store.operate({ ids: [job.id] }, { do: 'remove' })
      },
    ],
  ] as const) {
    test(`what a completed job gave stands, for its own time, if it is replayed and ${what}`, async ({
      store,
      advance,
    }) => {
      const id = await insertOne(store, guarded('k', 50_000))
      await settle(store, await claimOne(store), complete('1'))
      await replay(store, id)
      assert.equal((await foundBy(store)).result, '1')
      const again = await claimOne(store)
      assert.equal((await foundBy(store)).status, 'busy', 'others wait for what comes of it now')
      await end(store, again)
      assert.deepEqual(await foundBy(store), { status: 'done', result: '1', retryIn: undefined })
      await advance(50_000)
      await sweep(store)
      assert.equal((await foundBy(store)).status, 'begun')
    })
  }

  test('nobody waits for a replay that is for later', async ({ store, advance }) => {
    const id = await insertOne(store, guarded('k', 50_000))
    await settle(store, await claimOne(store), complete('1'))
    await replay(store, id, {}, 1_000)
    await insertOne(store, guarded('k', 50_000))
    const other = await claimOne(store)
    assert.deepEqual([other.guard?.status, other.guard?.result], ['done', '1'])
    await settle(store, other, complete('1'))
    await advance(1_000)
    await sweep(store)
    const job = await claimOne(store)
    assert.deepEqual([job.id, job.guard?.status], [id, 'begun'])
    assert.equal((await foundBy(store)).status, 'busy')
  })

  for (const command of [{ do: 'cancel', reason: 'no', retain: 0 }, { do: 'remove' }] as const) {
    test(`a replay that is ended before it ran (${command.do}) leaves the record as it was`, async ({
      store,
    }) => {
      const id = await insertOne(store, guarded())
      await settle(store, await claimOne(store), complete('1'))
      await replay(store, id)
      assert.deepEqual((await store.operate({ ids: [id] }, command)).affected, [id])
      await insertOne(store, { ...guarded(), id })
      assert.equal((await claimOne(store)).guard?.status, 'done', 'the id is used by another job now')
    })
  }

  test('a parent that was done, is replayed, dies of a child and comes back with it runs', async ({
    store,
  }) => {
    const whole = parent(guarded())
    const part = childOf([whole])
    await store.insert([whole, part])
    await settle(store, await claimOne(store), complete())
    await settle(store, await claimOne(store), complete('1'))
    await replay(store, whole.id)
    await replay(store, part.id)
    await settle(store, await claimOne(store), die())
    await settle(store, await claimOne(store), die(ofChild))
    assert.equal((await foundBy(store)).result, '1')
    await replay(store, part.id)
    assert.equal(await stateOf(store, whole.id), 'blocked')
    await settle(store, await claimOne(store), complete())
    const job = await claimOne(store)
    assert.deepEqual([job.id, job.guard?.status], [whole.id, 'begun'])
    await settle(store, job, complete('2'))
    assert.equal((await foundBy(store)).result, '2')
  })

  test('a job that is replayed has its key however long it takes', async ({ store, advance }) => {
    const id = await insertOne(store, guarded('k', 500))
    await settle(store, await claimOne(store), complete('1'))
    await replay(store, id)
    const job = await claimOne(store)
    await advance(1_000)
    await sweep(store)
    assert.equal((await foundBy(store)).status, 'busy')
    await settle(store, job, complete('2'))
    assert.deepEqual(await foundBy(store), { status: 'done', result: '2', retryIn: undefined })
  })

  test('a job that completed by what another did is replayed in vain', async ({ store }) => {
    await insertMany(store, 2, guarded())
    const [first, second] = await claim(store, 2)
    await settle(store, as(first), complete('1'))
    await settle(store, as(second), complete('1'))
    await replay(store, as(second).id)
    assert.equal((await claimOne(store)).guard?.status, 'done')
  })

  test('a replay with another input has that input’s key', async ({ store }) => {
    const id = await insertOne(store, guarded('old'))
    await settle(store, await claimOne(store), die())
    const change = { input: '2', guard: { key: 'new', retain: day } }
    await replay(store, id, change)
    assert.equal((await claimOne(store)).guard?.key, 'new')
    assert.deepEqual(
      [(await foundBy(store, 'old')).status, (await foundBy(store, 'new')).status],
      ['begun', 'busy'],
    )
  })

  test('a replay can give a job a guard, and take it', async ({ store }) => {
    const id = await insertOne(store)
    await settle(store, await claimOne(store), die())
    await replay(store, id, { guard: { key: 'k', retain: day } })
    const job = await claimOne(store)
    assert.equal(job.guard?.status, 'begun')
    await settle(store, job, die())
    await replay(store, id, { guard: null })
    assert.equal((await claimOne(store)).guard, undefined)
    assert.equal((await foundBy(store)).status, 'begun')
    assert.equal((await statesOf(store)).running, 1)
  })
}
