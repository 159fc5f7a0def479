/** Limits, turns, breakers and limiters are one for all handles on the same data. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { limited } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from './harness.js'
import {
  claim,
  die,
  idsOf,
  insertMany,
  insertOne,
  newJobs,
  rescue,
  settle,
  sorted,
  sweep,
  type Test,
} from './helpers.js'
import {
  allGates,
  ask,
  choose,
  completeAll,
  declare,
  gated,
  gateOf,
  groupGate,
  inGroup,
  jobGate,
  limiterGate,
  queueGate,
  rate,
  startAndComplete,
  withBoth,
  withKey,
} from './traffic-helpers.js'

export function trafficHandles(test: Test): void {
  const shared = (
    title: string,
    body: (store: Store, other: Store, harness: StoreHarness) => Promise<void>,
  ) =>
    test(title, async (harness) => {
      if (harness.second !== undefined) await body(harness.store, await harness.second(), harness)
    })

  shared('a rate holds over two handles, window after window', async (store, other, { advance }) => {
    await choose(store, jobGate(), { limit: { rate: rate(5, 20) }, each: { rate: rate(3, 20) } })
    for (const key of ['a', 'b']) await insertMany(other, 30, { traffic: withKey(key) })
    for (let window = 0; window < 6; window++) {
      const counts = await Promise.all(
        [store, other, store, other].map((handle, i) => startAndComplete(handle, 2, `worker-${i}`)),
      )
      const more = (await startAndComplete(other, 9, 'last')) + (await startAndComplete(store, 9, 'last'))
      assert.equal(
        counts.reduce((sum, count) => sum + count, more),
        5,
      )
      await advance(20)
    }
  })

  shared('a concurrency holds over two handles, whoever ends the job', async (store, other) => {
    await choose(store, queueGate(), { limit: { concurrency: 4 }, each: { concurrency: 2 } })
    for (const group of ['a', 'b', 'c']) await insertMany(store, 6, { traffic: inGroup(group) })
    let done = 0
    for (let round = 0; done < 18 && round < 20; round++) {
      const [mine, yours] = await Promise.all([claim(store, 3), claim(other, 3)])
      const all = [...mine, ...yours]
      assert.ok(all.length <= 4)
      for (const group of ['a', 'b', 'c']) assert.ok(all.filter((job) => job.group === group).length <= 2)
      await completeAll(other, mine)
      await completeAll(store, yours)
      done += all.length
    }
    assert.equal(done, 18)
    assert.deepEqual(await allGates(store, 'group'), [])
    assert.deepEqual(await allGates(other, 'group'), [])
  })

  shared('what one handle sets the other goes by at once', async (store, other) => {
    await insertMany(store, 9, { traffic: withBoth('g', 'k') })
    assert.equal((await claim(other, 1)).length, 1)
    await choose(store, groupGate('g'), { paused: true })
    assert.deepEqual(await claim(other, 9), [])
    await choose(other, groupGate('g'), { paused: null })
    await choose(other, jobGate(), { each: { concurrency: 3 } })
    assert.equal((await claim(store, 9)).length, 2)
    await choose(store, jobGate(), { each: null })
    assert.equal((await claim(other, 9)).length, 6)
  })

  shared('a place comes back by a rescue over another handle', async (store, other, { advance }) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    await insertMany(store, 2, { traffic: withKey('k') })
    assert.equal((await claim(store, 1, { worker: 'lost' })).length, 1)
    await advance(10_000)
    assert.deepEqual(await claim(other, 9, { worker: 'next' }), [])
    for (const orphan of (await sweep(other)).orphans) await rescue(other, orphan)
    assert.equal((await claim(store, 9, { worker: 'next' })).length, 1)
    assert.deepEqual(await claim(other, 9, { worker: 'next' }), [])
  })

  shared('groups take turns over two handles', async (store, other) => {
    await insertMany(store, 50, { traffic: inGroup('big') })
    await claim(store, 10)
    await insertMany(other, 5, { traffic: inGroup('small') })
    const groups: unknown[] = []
    for (let i = 0; i < 10; i++) groups.push((await claim(i % 2 === 0 ? store : other, 1))[0]?.group)
    assert.equal(groups.filter((group) => group === 'small').length, 5)
  })

  shared('jobs that both handles insert and park are each there once', async (store, other) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    const ids: string[] = []
    for (let i = 0; i < 10; i++) {
      const handle = i % 2 === 0 ? store : other
      ids.push(...(await insertMany(handle, 3, { traffic: withBoth(`g${i % 3}`, `k${i % 2}`) })))
    }
    const seen: string[] = []
    for (let round = 0; round < 40; round++) {
      const jobs = await Promise.all([claim(store, 2, { worker: 'a' }), claim(other, 2, { worker: 'b' })])
      await completeAll(store, jobs[0], 'a')
      await completeAll(other, jobs[1], 'b')
      seen.push(...idsOf(jobs.flat()))
    }
    assert.deepEqual(sorted(seen), sorted(ids))
  })

  shared(
    'groups that come and go in one turn leave nothing for the other to see',
    async (store, other, { overtakes }) => {
      const jobs = newJobs(3, { traffic: withBoth('g', 'k') })
      const inserted = store.insert(jobs)
      // Otherwise they may come when they have been removed.
      if (overtakes === true) await inserted
      await Promise.all([inserted, store.operate({ ids: idsOf(jobs) }, { do: 'remove' })])
      assert.deepEqual(await allGates(other, 'group'), [])
      assert.deepEqual(await allGates(other, 'key'), [])
      await other.insert(jobs)
      assert.equal((await claim(store, 9)).length, 3)
    },
  )

  shared('a hold and a breaker close for both', async (store, other, { advance }) => {
    const policy = { failureRate: 0.5, minimum: 2, window: 1_000, cooldown: 500, probes: 1 }
    await declare(store, jobGate(), { breaker: policy })
    await insertMany(store, 9, { traffic: gated })
    for (const handle of [store, other]) {
      const [job] = await claim(handle, 1)
      await settle(handle, job as ClaimedJob, die())
    }
    for (const handle of [store, other]) {
      assert.equal((await gateOf(handle, jobGate()))?.breaker, 'open')
      assert.deepEqual((await ask(handle, 9)).opens, 500)
    }
    await advance(500)
    const probes = [...(await claim(store, 9)), ...(await claim(other, 9))]
    assert.equal(probes.length, 1)
    const id = await insertOne(other, { name: 'held', traffic: withKey('k') })
    const [held] = await claim(store, 1)
    assert.equal(held?.id, id)
    await settle(store, held as ClaimedJob, limited(100))
    assert.deepEqual((await ask(other, 9)).opens, 100)
  })

  shared('a limiter’s permits are the same for both', async (store, other) => {
    await declare(store, limiterGate(), { limit: { rate: rate(5, 100) } })
    const asked = Array.from({ length: 10 }, (_, i) =>
      (i % 2 === 0 ? store : other).acquire({ limiter: 'api', permits: 1 }),
    )
    const granted = (await Promise.all(asked)).filter((result) => result.granted)
    assert.equal(granted.length, 5)
  })
}
