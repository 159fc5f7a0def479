/** A clock that is set back neither opens what is closed nor keeps it closed for longer than it was meant to be. */
import assert from 'node:assert/strict'
import { limited } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import {
  claim,
  claimOne,
  complete,
  die,
  insertMany,
  insertOne,
  newJob,
  newJobs,
  replay,
  settle,
  sweep,
  type Test,
} from './helpers.js'
import {
  allLimited,
  ask,
  choose,
  gated,
  inGroup,
  jobGate,
  limiterGate,
  queueGate,
  rate,
  setLimit,
} from './traffic-helpers.js'

const hour = 3_600_000

export function setBackTests(test: Test): void {
  for (const limitOf of allLimited) {
    test(`the rate of ${limitOf.what}`, async ({ store, advance, jump }) => {
      if (jump === undefined) return
      await setLimit(store, limitOf, { rate: rate(3, 100) })
      await insertMany(store, 20, limitOf.job)
      assert.equal(await start(store), 3)
      jump(-hour)
      assert.equal(await start(store), 0)
      await advance(99)
      assert.equal(await start(store), 0)
      await advance(1)
      assert.equal(await start(store), 3)
    })
  }

  test('a burst', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    await choose(store, jobGate(), { limit: { rate: rate(10, 100, 1) } })
    await insertMany(store, 20, { traffic: gated })
    assert.equal(await start(store), 1)
    jump(-hour)
    assert.equal(await start(store), 0)
    await advance(10)
    assert.equal(await start(store), 1)
  })

  test('a limiter', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    await choose(store, limiterGate(), { limit: { rate: rate(1, 100) } })
    const acquire = () => store.acquire({ limiter: 'api', permits: 1 })
    assert.equal((await acquire()).granted, true)
    jump(-hour)
    assert.deepEqual(await acquire(), { granted: false, retryIn: 100, most: 1 })
    await advance(100)
    assert.equal((await acquire()).granted, true)
  })

  test('a limiter that a definition names', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    await choose(store, limiterGate(), { limit: { rate: rate(2, 100) } })
    await choose(store, jobGate(), { limiter: 'api' })
    await insertMany(store, 9, { traffic: gated })
    assert.equal(await start(store), 2)
    jump(-hour)
    assert.equal(await start(store), 0)
    await advance(100)
    assert.equal(await start(store), 2)
  })

  for (const [whose, traffic] of [
    ['a definition', gated],
    ['a key', { ...gated, key: 'k' }],
  ] as const) {
    test(`a hold of ${whose}`, async ({ store, advance, jump }) => {
      if (jump === undefined) return
      await insertOne(store, { traffic })
      await settle(store, await claimOne(store), limited(500))
      await insertOne(store, { traffic })
      jump(-hour)
      assert.equal(await start(store), 0)
      await advance(499)
      assert.equal(await start(store), 0)
      await advance(1)
      assert.equal(await start(store), 2)
    })
  }

  test('a breaker, while it is open and while it is tried', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    const policy = { failureRate: 0.5, minimum: 1, window: 1_000, cooldown: 200, probes: 1 }
    await choose(store, jobGate(), { breaker: policy })
    await insertMany(store, 9, { traffic: gated })
    await settle(store, await claimOne(store), die())
    jump(-hour)
    assert.equal(await start(store), 0)
    await advance(199)
    assert.equal(await start(store), 0)
    await advance(1)
    await sweep(store)
    const probe = await claimOne(store)
    jump(-hour)
    await sweep(store)
    await settle(store, probe, complete())
    assert.equal((await claim(store, 9)).length, 7, 'a good probe closes it')
  })

  for (const step of [500, hour]) {
    test(`probes of a breaker that start after a step of ${step} ms`, async ({ store, advance, jump }) => {
      if (jump === undefined) return
      const policy = { failureRate: 0.5, minimum: 1, window: 1_000, cooldown: 200, probes: 2 }
      await choose(store, jobGate(), { breaker: policy })
      await insertMany(store, 20, { traffic: gated })
      await settle(store, await claimOne(store), die())
      await advance(200)
      await settle(store, await claimOne(store), complete())
      jump(-step)
      const probes = await claim(store, 9)
      assert.equal(probes.length, 2)
      await sweep(store)
      for (const job of probes) await settle(store, job, complete())
      // What was not counted as a probe keeps nobody waiting.
      let started = 0
      for (let i = 0; i < 9; i++) {
        started += await start(store)
        await advance(200)
      }
      assert.equal(started, 16)
    })
  }

  test('the window of a throttle', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    const add = async () => {
      const dedupe = { key: 'k', mode: 'throttle', window: 1_000, most: 0 } as const
      return (await store.insert([newJob({ dedupe })]))[0]?.status
    }
    assert.equal(await add(), 'inserted')
    jump(-hour)
    assert.equal(await add(), 'inserted')
    await advance(999)
    assert.equal(await add(), 'duplicate')
  })

  test('the key of a job that is replayed', async ({ store, jump }) => {
    if (jump === undefined) return
    const dedupe = { key: 'k', mode: 'replace', window: 0, most: 0 } as const
    const id = await insertOne(store, { dedupe })
    await settle(store, await claimOne(store), die())
    jump(-hour)
    await replay(store, id)
    const [result] = await store.insert([newJob({ dedupe })])
    assert.deepEqual([result?.status, result?.id], ['replaced', id])
  })

  test('hundreds of groups that would open at the same time', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    const groups = 250
    await choose(store, queueGate(), { each: { rate: rate(1, 100) } })
    const jobs = Array.from({ length: groups }, (_, i) => newJobs(2, { traffic: inGroup(`g${i}`) }))
    await store.insert(jobs.flat())
    assert.equal((await claim(store, 1_000)).length, groups)
    assert.deepEqual(await claim(store, 1_000), [])
    jump(-hour)
    // A sweep looks at a bounded number of them.
    for (let i = 0; i < 4; i++) await sweep(store)
    await advance(100)
    let started = 0
    for (let i = 0; i < 4; i++) started += (await claim(store, 1_000)).length
    assert.equal(started, groups)
  })

  test('a moment is left alone: other processes may have looked at the clock a little sooner', async ({
    store,
    advance,
    jump,
  }) => {
    if (jump === undefined) return
    await choose(store, jobGate(), { limit: { rate: rate(3, 100) } })
    await insertMany(store, 20, { traffic: gated })
    jump(5)
    assert.equal(await start(store), 3)
    jump(-5)
    assert.equal((await ask(store, 9)).opens, 105)
    await advance(104)
    assert.equal(await start(store), 0)
    await advance(1)
    assert.equal(await start(store), 3)
  })
}

/** How many start, once a sweep has looked at the clock. */
async function start(store: Store): Promise<number> {
  await sweep(store)
  const claimed = await claim(store, 9)
  for (const job of claimed) await settle(store, job, complete())
  return claimed.length
}
