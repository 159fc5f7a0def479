/** Never more starts in any window than the limit, and none held back longer than it must be. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { completedBefore, putOff, snoozed } from '../../core/lifecycle.js'
import {
  claim,
  complete,
  countBy,
  insertMany,
  insertOne,
  lease,
  newJobs,
  replay,
  rescue,
  retention,
  retryIn,
  settle,
  sweep,
  type Test,
} from './helpers.js'
import {
  allLimited,
  ask,
  choose,
  completeAll,
  completeNext,
  gated,
  groupGate,
  inGroup,
  jobGate,
  type Limited,
  queueGate,
  rate,
  setLimit,
  startAndComplete,
  withKey,
} from './traffic-helpers.js'

export function rateLimits(test: Test): void {
  for (const limited of allLimited) rateOf(test, limited)

  test('each key has a rate of its own', async ({ store, advance }) => {
    await choose(store, jobGate(), { each: { rate: rate(2, 100) } })
    for (const key of ['a', 'b', 'c']) await insertMany(store, 4, { traffic: withKey(key) })
    const first = await claim(store, 20)
    assert.deepEqual(countBy(first, 'key'), { a: 2, b: 2, c: 2 })
    await completeAll(store, first)
    await advance(99)
    assert.deepEqual(await claim(store, 20), [])
    await advance(1)
    assert.deepEqual(countBy(await claim(store, 20), 'key'), { a: 2, b: 2, c: 2 })
  })

  test('keys of different definitions and groups of different queues are not the same', async ({ store }) => {
    await choose(store, jobGate('one'), { each: { rate: rate(1, 100) } })
    await choose(store, jobGate('two'), { each: { rate: rate(1, 100) } })
    await choose(store, queueGate('main'), { each: { rate: rate(1, 100) } })
    await choose(store, queueGate('other'), { each: { rate: rate(1, 100) } })
    for (const name of ['one', 'two']) await insertMany(store, 2, { name, traffic: withKey('same') })
    for (const queue of ['main', 'other']) await insertMany(store, 2, { queue, traffic: inGroup('same') })
    const claimed = await claim(store, 20, { queues: ['main', 'other'] })
    assert.equal(claimed.length, 4)
  })

  test('a job passes only where its queue, definition, group and key all have room', async ({
    store,
    advance,
  }) => {
    await choose(store, queueGate(), { limit: { rate: rate(5, 100) }, each: { rate: rate(4, 100) } })
    await choose(store, jobGate(), { limit: { rate: rate(3, 100) }, each: { rate: rate(2, 100) } })
    const traffic = { gated: true, group: 'g', key: 'k' }
    await insertMany(store, 10, { traffic })
    assert.equal(await startAndComplete(store, 10), 2, 'the key has the smallest')
    await insertMany(store, 10, { traffic: { ...traffic, key: 'other' } })
    assert.equal(await startAndComplete(store, 20), 1, 'then the definition')
    await insertMany(store, 10, { name: 'free', traffic: { ...traffic, gated: false, key: undefined } })
    assert.equal(await startAndComplete(store, 20), 1, 'then the group')
    await insertMany(store, 10, { name: 'free' })
    assert.equal(await startAndComplete(store, 20), 1, 'then the queue')
    await advance(100)
    assert.equal(await startAndComplete(store, 20), 5)
  })

  test('a queue’s limit counts all of its jobs, whatever their definitions, groups and lanes', async ({
    store,
    advance,
  }) => {
    await choose(store, queueGate(), { limit: { rate: rate(4, 50) } })
    await choose(store, jobGate('limited'), { limit: { concurrency: 10 } })
    for (const lane of [0, 3]) {
      await insertMany(store, 5, { lane })
      await insertMany(store, 5, { lane, name: 'limited', traffic: gated })
      await insertMany(store, 5, { lane, traffic: inGroup('g') })
    }
    for (let window = 0; window < 7; window++) {
      assert.equal(await startAndComplete(store, 3), 3)
      assert.equal(await startAndComplete(store, 3), 1)
      assert.equal(await startAndComplete(store, 3), 0)
      await advance(50)
    }
    assert.equal(await startAndComplete(store, 30), 2)
  })

  test('a definition’s limit counts its jobs in all queues', async ({ store }) => {
    await choose(store, jobGate(), { limit: { rate: rate(3, 50) } })
    for (const queue of ['a', 'b', 'c']) await insertMany(store, 3, { queue, traffic: gated })
    assert.equal((await claim(store, 2, { queues: ['a'] })).length, 2)
    assert.equal((await claim(store, 2, { queues: ['b'] })).length, 1)
    assert.deepEqual(await claim(store, 2, { queues: ['c'] }), [])
  })

  test('queues that no limit concerns are told of none', async ({ store }) => {
    await choose(store, groupGate('g'), { limit: { rate: rate(1, 100) } })
    await insertMany(store, 2, { traffic: inGroup('g') })
    await insertOne(store, { queue: 'free' })
    assert.deepEqual(
      [(await ask(store, 9)).opens, (await ask(store, 9, 'w', ['free'])).opens],
      [100, undefined],
    )
    assert.deepEqual((await ask(store, 9, 'w', ['free'])).opens, undefined)
  })

  test('a longer window is kept exactly where it matters: never one start too many', async ({
    store,
    advance,
  }) => {
    const per = 60_000
    await choose(store, jobGate(), { limit: { rate: rate(10, per) } })
    await insertMany(store, 200, { traffic: gated })
    const starts: number[] = []
    let now = 0
    for (const step of [
      0, 1, 7_000, 300, 33_333, 19_000, 365, 1, 600, 598, 1, 1, 40_000, 20_000, 60_000, 0,
    ]) {
      await advance(step)
      now += step
      const count = await startAndComplete(store, 4)
      for (let i = 0; i < count; i++) starts.push(now)
      const recent = starts.filter((at) => at > now - per)
      assert.ok(recent.length <= 10, `${recent.length} starts in the window that ends at ${now}`)
    }
    assert.ok(starts.length >= 30, `${starts.length} started, so it was not held back for ever`)
  })

  test('a full window opens again within one percent of its length', async ({ store, advance }) => {
    const per = 60_000
    await choose(store, jobGate(), { limit: { rate: rate(2, per) } })
    await insertMany(store, 4, { traffic: gated })
    await advance(123)
    assert.equal(await startAndComplete(store, 9), 2)
    const { opens } = await ask(store, 9)
    assert.ok(opens !== undefined && opens >= per && opens <= per * 1.01, `opens in ${opens}`)
    await advance(opens)
    assert.equal(await startAndComplete(store, 9), 2)
  })

  test('a burst bounds what starts at once, and the rest follows evenly', async ({ store, advance }) => {
    await choose(store, jobGate(), { limit: { rate: rate(10, 100, 2) } })
    await insertMany(store, 40, { traffic: gated })
    assert.equal(await startAndComplete(store, 9), 2)
    for (let i = 0; i < 8; i++) {
      await advance(9)
      assert.equal(await startAndComplete(store, 9), 0, 'not before its time')
      await advance(1)
      assert.equal(await startAndComplete(store, 9), 1)
    }
    await advance(20)
    assert.equal(await startAndComplete(store, 9), 2, 'a pause makes it whole again')
    await advance(1_000)
    assert.equal(await startAndComplete(store, 9), 2, 'and no more than whole')
  })

  for (const [max, burst] of [
    [3, 2],
    [7, 3],
    [9, 4],
    [11, 5],
    [13, 2],
  ] as const) {
    test(`a burst of ${burst} at ${max} per second is there one by one as well`, async ({
      store,
      advance,
    }) => {
      await choose(store, jobGate(), { limit: { rate: rate(max, 1_000, burst) } })
      await insertMany(store, 200, { traffic: gated })
      for (let round = 0; round < 5; round++) {
        for (let i = 0; i < burst; i++) assert.equal(await startAndComplete(store, 1), 1, `start ${i + 1}`)
        assert.equal(await startAndComplete(store, 1), 0)
        const { opens } = await ask(store, 1)
        assert.ok(opens !== undefined && opens > 0 && opens <= 1_000, `opens in ${opens}`)
        await advance(3_001)
      }
    })
  }

  test('a clock that is read a moment too early opens no window early', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    await choose(store, jobGate(), { limit: { rate: rate(3, 100) } })
    await insertMany(store, 20, { traffic: gated })
    jump(5)
    assert.equal(await startAndComplete(store, 2), 2)
    jump(-5)
    assert.equal(await startAndComplete(store, 9), 1)
    await advance(104)
    assert.equal(await startAndComplete(store, 9), 0)
    await advance(1)
    assert.equal(await startAndComplete(store, 9), 3)
  })

  test('retries, releases, rescues and replays are starts like any other', async ({ store, advance }) => {
    await choose(store, jobGate(), { limit: { rate: rate(1, 100) } })
    const id = await insertOne(store, { traffic: gated, maxCrashes: 9 })
    const next = async (worker = 'worker') => {
      assert.deepEqual(await claim(store, 1), [], 'not in the same window')
      await advance(100)
      const [job] = await claim(store, 1, { worker })
      assert.equal(job?.id, id)
      return job as NonNullable<typeof job>
    }
    const [first] = await claim(store, 1)
    await settle(store, first as NonNullable<typeof first>, retryIn(0))
    await sweep(store)
    await settle(store, await next(), retryIn(5))
    await store.operate({ ids: [id] }, { do: 'promote' })
    await next('lost')
    await advance(lease - 50)
    await choose(store, jobGate(), { limit: { rate: rate(1, lease + 100) } })
    await advance(50)
    for (const orphan of (await sweep(store)).orphans) await rescue(store, orphan)
    assert.deepEqual(await claim(store, 1), [])
    await choose(store, jobGate(), { limit: { rate: rate(1, 100) } })
    const [again] = await claim(store, 1)
    assert.equal(again?.id, id)
    await settle(store, again as NonNullable<typeof again>, complete())
    await replay(store, id)
    await next()
  })

  test('a burst gets back what did not run', async ({ store, advance }) => {
    await choose(store, jobGate(), { limit: { rate: rate(10, 1_000, 1) } })
    await insertMany(store, 4, { traffic: gated })
    for (let i = 0; i < 2; i++) {
      const [job, ...more] = await claim(store, 9)
      assert.deepEqual(more, [])
      await settle(store, job as ClaimedJob, putOff(60_000))
    }
    const [job] = await claim(store, 9)
    await settle(store, job as ClaimedJob, complete())
    await advance(99)
    assert.deepEqual(await claim(store, 9), [])
    await advance(1)
    assert.equal((await claim(store, 9)).length, 1)
  })

  test('jobs that a settlement adds obey limits too', async ({ store }) => {
    await choose(store, jobGate(), { limit: { rate: rate(2, 100) } })
    await choose(store, queueGate(), { each: { rate: rate(1, 100) } })
    await insertOne(store, { name: 'parent' })
    const [parent] = await claim(store, 1)
    const children = [
      ...newJobs(3, { traffic: gated }),
      ...newJobs(3, { name: 'free', traffic: inGroup('g') }),
    ]
    await settle(store, parent as NonNullable<typeof parent>, complete(), { inserts: children })
    const claimed = await claim(store, 20)
    assert.deepEqual(claimed.map(({ name }) => name).sort(), ['free', 'greet', 'greet'])
  })
}

function rateOf(test: Test, limited: Limited): void {
  const { what, job } = limited

  test(`the rate of ${what}: the window slides, to the millisecond`, async ({ store, advance }) => {
    await setLimit(store, limited, { rate: rate(3, 100) })
    const ids = await insertMany(store, 9, job)
    const seen: string[] = []
    const starts = async (count: number, expected: number) => {
      const started = await completeNext(store, count)
      assert.equal(started.length, expected)
      seen.push(...started)
    }
    await starts(1, 1)
    await advance(40)
    await starts(9, 2)
    await advance(59)
    await starts(9, 0)
    await advance(1)
    await starts(9, 1)
    await advance(39)
    await starts(9, 0)
    await advance(1)
    await starts(9, 2)
    await advance(1_000)
    await starts(9, 3)
    await starts(9, 0)
    assert.deepEqual(seen, ids, 'first in, first out')
  })

  test(`what did not run gives back what it took of the rate of ${what}`, async ({ store, advance }) => {
    await setLimit(store, limited, { rate: rate(2, 1_000) })
    await insertMany(store, 6, job)
    const [one, two] = await claim(store, 9)
    await advance(30)
    assert.deepEqual(await claim(store, 9), [])
    await settle(store, one as ClaimedJob, putOff(60_000))
    const [three, ...more] = await claim(store, 9)
    assert.ok(three)
    assert.deepEqual(more, [])
    await settle(store, two as ClaimedJob, complete())
    await advance(30)
    await settle(store, three, completedBefore('1', retention))
    const [four] = await claim(store, 9)
    assert.ok(four)
    await settle(store, four, snoozed(60_000))
    assert.deepEqual(await claim(store, 9), [], 'one that ran gives nothing back')
  })

  test(`the rate of ${what} holds for all workers together`, async ({ store, advance }) => {
    await setLimit(store, limited, { rate: rate(4, 20) })
    await insertMany(store, 40, job)
    for (let window = 0; window < 5; window++) {
      const found = await Promise.all(
        Array.from({ length: 6 }, (_, i) => startAndComplete(store, 3, `worker-${i}`)),
      )
      assert.equal(
        found.reduce((sum, count) => sum + count, 0),
        4,
      )
      await advance(20)
    }
  })

  test(`the rate of ${what}: the exchange says when to come back, and then there is work`, async ({
    store,
    advance,
  }) => {
    await setLimit(store, limited, { rate: rate(2, 70) })
    await insertMany(store, 5, job)
    const first = await ask(store, 9)
    assert.equal(first.claimed.length, 2)
    assert.equal(first.opens, 70, 'told with the claim that used it up')
    await advance(30)
    const { claimed, opens } = await ask(store, 9)
    assert.deepEqual([claimed.length, opens], [0, 40])
    await advance(39)
    assert.deepEqual(await ask(store, 9), { settled: [], claimed: [], opens: 1 })
    await advance(1)
    const second = await ask(store, 9)
    assert.deepEqual([second.claimed.length, second.opens], [2, 70])
    await advance(70)
    const last = await ask(store, 9)
    assert.deepEqual([last.claimed.length, last.opens], [1, undefined], 'nobody waits any more')
  })

  test(`the rate of ${what} is raised, lowered and cleared at run time`, async ({ store, advance }) => {
    await setLimit(store, limited, { rate: rate(2, 100) })
    await insertMany(store, 40, job)
    assert.equal(await startAndComplete(store, 9), 2)
    await setLimit(store, limited, { rate: rate(5, 100) })
    assert.equal(await startAndComplete(store, 9), 3, 'what has started counts')
    await setLimit(store, limited, { rate: rate(1, 100) })
    assert.equal(await startAndComplete(store, 9), 0)
    await advance(100)
    assert.equal(await startAndComplete(store, 9), 1)
    await choose(store, limited.on, { limit: null, each: null })
    assert.equal(await startAndComplete(store, 40), 34)
  })
}
