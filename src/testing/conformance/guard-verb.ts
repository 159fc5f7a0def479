import assert from 'node:assert/strict'
import { released } from '../../core/lifecycle.js'
import { ask, begin, day, guarded } from './guard-jobs.js'
import type { StoreHarness } from './harness.js'
import { claimOne, complete, insertOne, settle, sweep, type Test } from './helpers.js'

/** The verb, for callers that are no jobs. */
export function guardVerbTests(test: Test): void {
  test('begin, then complete: who comes later gets the result', async ({ store, advance }) => {
    assert.equal((await begin(store)).status, 'begun')
    assert.equal((await begin(store, 'b')).status, 'busy')
    assert.equal(
      (await ask(store, { do: 'complete', holder: 'a', result: '1', retain: 500 })).status,
      'applied',
    )
    assert.deepEqual(await begin(store, 'b'), { status: 'done', result: '1', retryIn: undefined })
    await advance(500)
    assert.equal((await begin(store, 'b')).status, 'begun')
  })

  test('fail lets go', async ({ store }) => {
    await begin(store)
    assert.equal((await ask(store, { do: 'fail', holder: 'a' })).status, 'applied')
    assert.equal((await begin(store, 'b')).status, 'begun')
  })

  test('each verb repeated does what it did', async ({ store }) => {
    await begin(store)
    assert.equal((await begin(store)).status, 'begun')
    const word = { do: 'complete', holder: 'a', result: '1', retain: day } as const
    assert.equal((await ask(store, word)).status, 'applied')
    assert.equal((await ask(store, word)).status, 'applied')
    assert.equal((await ask(store, { do: 'fail', holder: 'a' })).status, 'lost', 'what is done stays')
    assert.deepEqual(await begin(store), { status: 'done', result: '1', retryIn: undefined })
  })

  test('only the holder has a say', async ({ store }) => {
    await begin(store)
    assert.equal((await ask(store, { do: 'complete', holder: 'b', result: '1', retain: day })).status, 'lost')
    assert.equal((await ask(store, { do: 'fail', holder: 'b' })).status, 'lost')
    assert.equal((await ask(store, { do: 'fail', holder: 'a' })).status, 'applied')
    assert.equal((await ask(store, { do: 'fail', holder: 'a' })).status, 'lost')
  })

  test('a lease ends by itself, is renewed by its holder, and its end is told to who waits', async ({
    store,
    advance,
  }) => {
    await begin(store, 'a', 1_000)
    await advance(900)
    assert.equal((await begin(store, 'b')).retryIn, 100)
    await begin(store, 'a', 1_000)
    await advance(999)
    assert.equal((await begin(store, 'b')).status, 'busy')
    await advance(1)
    assert.equal((await begin(store, 'b')).status, 'begun')
    assert.equal((await begin(store, 'a')).status, 'busy')
    assert.equal((await ask(store, { do: 'complete', holder: 'a', result: '1', retain: day })).status, 'lost')
  })

  test('a lease that ran out is good as long as nobody else wanted the key', async ({ store, advance }) => {
    await begin(store, 'a', 1_000)
    await advance(5_000)
    assert.equal(
      (await ask(store, { do: 'complete', holder: 'a', result: '1', retain: day })).status,
      'applied',
    )
    assert.equal((await begin(store, 'b')).result, '1')
  })

  test('a job and a caller keep each other out', async ({ store }) => {
    await begin(store)
    await insertOne(store, guarded())
    const job = await claimOne(store)
    assert.equal(job.guard?.status, 'busy')
    await ask(store, { do: 'complete', holder: 'a', result: '1', retain: day })
    await settle(store, job, released())
    const again = await claimOne(store)
    assert.deepEqual([again.guard?.status, again.guard?.result], ['done', '1'])
  })

  test('a caller that has the id of a job is not that job', async ({ store }) => {
    const id = await insertOne(store, guarded())
    const job = await claimOne(store)
    assert.equal((await begin(store, id)).status, 'busy')
    assert.equal((await ask(store, { do: 'fail', holder: id })).status, 'lost')
    await settle(store, job, complete('1'))
    assert.equal((await ask(store, { do: 'complete', holder: id, result: '2', retain: day })).status, 'lost')
  })

  test('sweeps forget what is over, a bounded number at a time', async ({ store, advance }) => {
    for (const key of ['a', 'b', 'c']) {
      await ask(store, { do: 'begin', holder: 'a', lease: 100 }, key)
      await ask(store, { do: 'complete', holder: 'a', result: '1', retain: 100 }, key)
    }
    await ask(store, { do: 'begin', holder: 'a', lease: 50 }, 'left behind')
    await ask(store, { do: 'begin', holder: 'a', lease: 5_000 }, 'held')
    await advance(100)
    const more: boolean[] = []
    for (let i = 0; i < 3; i++) more.push((await sweep(store, { limit: 2 })).more)
    assert.deepEqual(more, [true, true, false])
    assert.equal(
      (await ask(store, { do: 'complete', holder: 'a', result: '1', retain: 1 }, 'left behind')).status,
      'lost',
    )
    assert.equal((await ask(store, { do: 'begin', holder: 'b', lease: 5 }, 'held')).status, 'busy')
  })

  test('a clock that was set back makes nothing end sooner', async (harness: StoreHarness) => {
    const { store, jump } = harness
    if (jump === undefined) return
    await begin(store, 'a', 1_000)
    jump(-3600_000)
    const { status, retryIn } = await begin(store, 'b')
    assert.deepEqual([status, retryIn], ['busy', 100])
    await ask(store, { do: 'complete', holder: 'a', result: '1', retain: 500 })
    assert.equal((await begin(store, 'b')).status, 'done')
  })

  test('a signal tells who waits that a key is free or done', async ({ store }) => {
    const heard: string[] = []
    const stopListening = store.subscribe(({ type }) => heard.push(type))
    await begin(store)
    assert.deepEqual(heard, [])
    await ask(store, { do: 'fail', holder: 'a' })
    stopListening()
    assert.deepEqual(heard, ['changed'])
  })
}
