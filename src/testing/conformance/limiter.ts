/** Limiters by name: permits for code outside of jobs, and for definitions that share a limit. */
import assert from 'node:assert/strict'
import type { Store } from '../../core/store.js'
import { claim, insertMany, type Test } from './helpers.js'
import {
  ask,
  choose,
  completeAll,
  declare,
  gated,
  gateOf,
  jobGate,
  limiterGate,
  rate,
  startAndComplete,
} from './traffic-helpers.js'

export function limiterTests(test: Test): void {
  test('grants permits up to the rate, then says when to ask again', async ({ store, advance }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(3, 100) } })
    for (let i = 0; i < 3; i++) assert.deepEqual(await acquire(store), { granted: true, retryIn: 0, most: 3 })
    assert.deepEqual(await acquire(store), { granted: false, retryIn: 100, most: 3 })
    await advance(60)
    assert.deepEqual(await acquire(store), { granted: false, retryIn: 40, most: 3 })
    await advance(39)
    assert.deepEqual(await acquire(store), { granted: false, retryIn: 1, most: 3 })
    await advance(1)
    assert.deepEqual(await acquire(store), { granted: true, retryIn: 0, most: 3 })
  })

  test('grants all or none', async ({ store, advance }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(5, 100) } })
    assert.equal((await acquire(store, 3)).granted, true)
    await advance(10)
    assert.deepEqual(await acquire(store, 3), { granted: false, retryIn: 90, most: 5 })
    assert.equal((await acquire(store, 2)).granted, true, 'a refusal takes nothing')
    await advance(90)
    assert.deepEqual(await acquire(store, 4), { granted: false, retryIn: 10, most: 5 })
    assert.equal((await acquire(store, 3)).granted, true)
  })

  test('many who ask at once get no more than there are', async ({ store }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(7, 100) } })
    const results = await Promise.all(Array.from({ length: 20 }, () => acquire(store)))
    assert.equal(results.filter(({ granted }) => granted).length, 7)
  })

  test('one that nobody has given a rate grants nothing, and holds up the jobs that name it', async ({
    store,
  }) => {
    const { granted, most } = await acquire(store)
    assert.deepEqual([granted, most], [false, undefined])
    await declare(store, jobGate(), { limiter: 'api' })
    await insertMany(store, 3, { traffic: gated })
    assert.equal((await claim(store, 9)).length, 0)
    await declare(store, limiterGate(), { limit: { rate: rate(2, 100) } })
    assert.equal((await claim(store, 9)).length, 2)
  })

  test('permits that are spread by a burst', async ({ store, advance }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(10, 100, 2) } })
    assert.equal((await acquire(store, 2)).granted, true)
    assert.deepEqual(await acquire(store, 2), { granted: false, retryIn: 20, most: 2 })
    assert.deepEqual(await acquire(store), { granted: false, retryIn: 10, most: 2 })
    await advance(10)
    assert.equal((await acquire(store)).granted, true)
  })

  for (const [what, limit] of [
    ['the rate', rate(5, 100)],
    ['the burst', rate(5, 100, 2)],
  ] as const) {
    test(`permits beyond ${what} are never granted, and who asks is not sent round in circles`, async ({
      store,
      advance,
    }) => {
      await declare(store, limiterGate(), { limit: { rate: limit } })
      for (let i = 0; i < 5; i++) {
        const { granted, retryIn } = await acquire(store, 6)
        assert.equal(granted, false)
        assert.ok(retryIn > 0, `told to ask again in ${retryIn} ms`)
        await advance(retryIn)
      }
      assert.equal((await acquire(store)).granted, true, 'and used none up')
    })
  }

  test('says the most permits that the present setting can grant at once', async ({ store }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(5, 100) } })
    assert.equal((await acquire(store)).most, 5)
    await choose(store, limiterGate(), { limit: { rate: rate(5, 100, 2) } })
    assert.equal((await acquire(store)).most, 2)
    await choose(store, limiterGate(), { limit: null })
    assert.equal((await acquire(store)).most, 5)
  })

  test('definitions that name it share it, in all queues, with code outside of jobs', async ({
    store,
    advance,
  }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(5, 100) } })
    for (const name of ['one', 'two']) {
      await declare(store, jobGate(name), { limiter: 'api' })
      await insertMany(store, 5, { name, queue: name, traffic: gated })
    }
    assert.equal((await acquire(store)).granted, true)
    assert.equal((await claim(store, 3, { queues: ['one'] })).length, 3)
    assert.equal((await claim(store, 9, { queues: ['two'] })).length, 1)
    const { claimed, opens } = await ask(store, 9, 'worker', ['one', 'two'])
    assert.deepEqual([claimed, opens], [[], 100])
    await advance(100)
    assert.equal((await claim(store, 9, { queues: ['one', 'two'] })).length, 5)
    assert.equal((await acquire(store)).granted, false)
  })

  test('its permits are spent by time alone: an end gives none back', async ({ store, advance }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(2, 100) } })
    await declare(store, jobGate(), { limiter: 'api', limit: { concurrency: 1 } })
    await insertMany(store, 5, { traffic: gated })
    assert.equal(await startAndComplete(store, 9), 1)
    assert.equal(await startAndComplete(store, 9), 1)
    assert.equal(await startAndComplete(store, 9), 0)
    await advance(100)
    const claimed = await claim(store, 9)
    assert.equal(claimed.length, 1)
    await completeAll(store, claimed)
  })

  test('a definition that is held up by it holds up nobody else', async ({ store }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(1, 1_000) } })
    await declare(store, jobGate(), { limiter: 'api' })
    await insertMany(store, 3, { traffic: gated })
    const free = await insertMany(store, 3, { name: 'free' })
    assert.equal((await claim(store, 9)).length, 1 + free.length)
    await declare(store, { of: 'limiter', name: 'wide' }, { limit: { rate: rate(99, 1_000) } })
    await choose(store, jobGate(), { limiter: 'wide' })
    assert.equal((await claim(store, 9)).length, 2, 'at once')
  })

  test('a limiter that is named at run time counts from then on', async ({ store }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(2, 1_000) } })
    await declare(store, jobGate(), { limit: { concurrency: 9 } })
    await insertMany(store, 9, { traffic: gated })
    assert.equal((await claim(store, 3)).length, 3)
    await choose(store, jobGate(), { limiter: 'api' })
    assert.equal((await claim(store, 9)).length, 2)
    await choose(store, jobGate(), { limiter: null })
    assert.equal((await claim(store, 9)).length, 4)
  })

  test('who needs several permits at once is not passed for ever by those who need one', async ({
    store,
    advance,
  }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(10, 100, 5) } })
    await declare(store, jobGate(), { limiter: 'api' })
    await insertMany(store, 200, { traffic: gated })
    assert.equal(await startAndComplete(store, 9), 5)
    let granted = 0
    let started = 0
    for (let ms = 0; ms < 400; ms += 5) {
      await advance(5)
      if ((await acquire(store, 3, 'heavy')).granted) granted++
      started += await startAndComplete(store, 9)
      if ((await acquire(store)).granted) started++
    }
    // Forty permits come back in this time. After each of its turns the others have one.
    assert.ok(granted >= 5, `the heavy one was served ${granted} times`)
    assert.ok(started >= granted, `the others ${started} times`)
    assert.ok(granted * 3 + started >= 35, 'and none is wasted')
  })

  test('permits that are put aside are free again when nobody asks for them', async ({ store, advance }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(3, 100) } })
    await declare(store, jobGate(), { limiter: 'api' })
    await insertMany(store, 9, { traffic: gated })
    assert.equal((await acquire(store)).granted, true)
    assert.deepEqual(await acquire(store, 3, 'gone'), { granted: false, retryIn: 100, most: 3 })
    for (let i = 0; i < 3; i++) {
      const { claimed, opens } = await ask(store, 9)
      assert.deepEqual(claimed, [])
      assert.ok(opens !== undefined && opens > 0, `nobody is sent round in circles: ${opens}`)
      await advance(opens)
    }
    assert.equal((await acquire(store, 2, 'late')).granted, false, 'one at a time is served')
    await advance(2_000)
    assert.equal((await claim(store, 9)).length, 3)
  })

  test('its state can be read', async ({ store }) => {
    await declare(store, limiterGate(), { limit: { rate: rate(3, 100) } })
    await acquire(store, 2)
    const gate = await gateOf(store, limiterGate())
    assert.deepEqual(
      [gate?.room, gate?.opensAt, gate?.declared],
      [1, undefined, { limit: { rate: rate(3, 100) } }],
    )
    await acquire(store, 1)
    const closed = await gateOf(store, limiterGate())
    assert.ok(closed?.room === 0 && closed.opensAt !== undefined)
  })
}

function acquire(store: Store, permits = 1, waiter?: string) {
  return store.acquire({ limiter: 'api', permits, waiter })
}
