/** A clock that is set back neither opens what is closed nor keeps it closed for longer than it was meant to be. */
import assert from 'node:assert/strict'
import { limited } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import { allLimited, ask, choose, gated, jobGate, limiterGate, rate, setLimit } from './flow-helpers.js'
import { claim, claimOne, complete, die, insertMany, insertOne, settle, sweep, type Test } from './helpers.js'

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
    await insertMany(store, 20, { flow: gated })
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

  for (const [whose, flow] of [
    ['a definition', gated],
    ['a key', { ...gated, key: 'k' }],
  ] as const) {
    test(`a hold of ${whose}`, async ({ store, advance, jump }) => {
      if (jump === undefined) return
      await insertOne(store, { flow })
      await settle(store, await claimOne(store), limited(500))
      await insertOne(store, { flow })
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
    await insertMany(store, 9, { flow: gated })
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

  test('a moment is left alone: other processes may have looked at the clock a little sooner', async ({
    store,
    advance,
    jump,
  }) => {
    if (jump === undefined) return
    await choose(store, jobGate(), { limit: { rate: rate(3, 100) } })
    await insertMany(store, 20, { flow: gated })
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
