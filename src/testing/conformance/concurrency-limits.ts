/** Never more at the same time than the limit, over all workers; every end gives its place back, once. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { limited as heldUp, type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import {
  claim,
  claimRequest,
  complete,
  die,
  idsOf,
  insertMany,
  insertOne,
  lease,
  newJobs,
  replay,
  rescue,
  retryIn,
  settle,
  stop,
  sweep,
  type Test,
  wait,
} from './helpers.js'
import {
  allLimited,
  ask,
  choose,
  completeAll,
  gated,
  gateOf,
  groupGate,
  inGroup,
  jobGate,
  type Limited,
  queueGate,
  rescueAll,
  setLimit,
  withBoth,
  withKey,
} from './traffic-helpers.js'

const leaveNothing = complete(undefined, { completed: 0, dead: 0 })

const ends: readonly [string, Outcome][] = [
  ['complete', complete()],
  ['complete and leave nothing', leaveNothing],
  ['retry', retryIn(1_000)],
  ['die', die()],
  ['cancel', stop()],
  ['release', released()],
  ['snooze', snoozed(1_000)],
  ['wait', wait()],
  ['a hold that is over at once', { ...heldUp(1), hold: 0 }],
]

export function concurrencyLimits(test: Test): void {
  for (const limited of allLimited) concurrencyOf(test, limited)

  for (const [end, outcome] of ends) {
    test(`every limit of a job gets its place back: ${end}`, async ({ store }) => {
      await limitAll(store, 2)
      await insertMany(store, 6, { traffic: withBoth('g', 'k') })
      let [first, second] = await two(store)
      for (let round = 0; round < 4; round++) {
        assert.deepEqual(await claim(store, 5), [], 'no third beside them')
        assert.equal(await settle(store, first, outcome), 'applied')
        const [next, ...others] = await claim(store, 5)
        assert.ok(next, `the place of round ${round} came back`)
        assert.deepEqual(others, [], 'and no more than that')
        first = second
        second = next
      }
    })
  }

  test('plain jobs that end do not give back what groups of jobs long gone had', async ({ store }) => {
    await choose(store, groupGate('g'), { limit: { concurrency: 2 } })
    await insertOne(store, { traffic: inGroup('g') })
    const [running] = await claim(store, 5)
    for (let round = 0; round < 3; round++) {
      // The group's job leaves nothing behind, and its place in the file goes to one of the others.
      await insertOne(store, { traffic: inGroup('g') })
      for (const job of await claim(store, 5)) await settle(store, job, leaveNothing)
      await insertMany(store, 2, { queue: 'other' })
      await insertMany(store, 2)
      const plain = await claim(store, 5, { queues: ['main', 'other'] })
      await store.exchange({
        worker: 'worker',
        settlements: plain.map(({ id, token }) => ({ id, token, outcome: leaveNothing, inserts: undefined })),
        claim: undefined,
      })
    }
    await insertMany(store, 5, { traffic: inGroup('g') })
    assert.equal((await claim(store, 5)).length, 1, 'one runs, so one may start')
    assert.equal(await settle(store, running as ClaimedJob, complete()), 'applied')
    assert.equal((await claim(store, 5)).length, 1)
  })

  test('a cancel that was asked for gives the place back once, when the job ends', async ({ store }) => {
    await limitAll(store, 1)
    await insertMany(store, 3, { traffic: withBoth('g', 'k') })
    const [job] = await claim(store, 5)
    await store.operate({ ids: [job?.id as string] }, { do: 'cancel', reason: 'no', retain: 0 })
    assert.deepEqual(await claim(store, 5), [])
    assert.equal(await settle(store, job as ClaimedJob, released()), 'cancelled')
    assert.equal((await claim(store, 5)).length, 1)
    assert.equal(await settle(store, job as ClaimedJob, complete()), 'lost')
    assert.deepEqual(await claim(store, 5), [], 'a settlement that is lost gives nothing back')
  })

  test('the place of a lost worker comes back with the rescue, not with the end of its lease', async (harness) => {
    const { store, advance } = harness
    await limitAll(store, 2)
    await insertMany(store, 6, { traffic: withBoth('g', 'k'), maxCrashes: 9 })
    assert.equal((await claim(store, 5, { worker: 'lost' })).length, 2)
    await advance(lease * 3)
    assert.deepEqual(await claim(store, 5, { worker: 'other' }), [])
    const { orphans } = await sweep(store)
    assert.deepEqual(await claim(store, 5, { worker: 'other' }), [])
    assert.equal(await rescue(store, orphans[0] as (typeof orphans)[0]), 'applied')
    assert.equal((await claim(store, 5, { worker: 'other' })).length, 1)
    assert.equal(await rescue(store, orphans[0] as (typeof orphans)[0]), 'lost')
    assert.deepEqual(await claim(store, 5, { worker: 'other' }), [], 'a second rescue gives nothing back')
  })

  test('places that a dead worker held are all there again after the rescue', async (harness) => {
    const { store } = harness
    await limitAll(store, 3)
    await insertMany(store, 9, { traffic: withBoth('g', 'k'), maxCrashes: 99 })
    for (let round = 0; round < 4; round++) {
      assert.equal((await claim(store, 9, { worker: `lost-${round}` })).length, 3)
      assert.equal(await rescueAll(harness), 3)
    }
    const { running } = (await gateOf(store, groupGate('g'))) ?? {}
    assert.equal(running, 0)
  })

  test('many ends in one call give many places back', async ({ store }) => {
    await choose(store, queueGate(), { limit: { concurrency: 6 }, each: { concurrency: 4 } })
    await choose(store, jobGate(), { limit: { concurrency: 5 }, each: { concurrency: 2 } })
    for (let i = 0; i < 10; i++) {
      for (const traffic of [withKey('a'), withKey('b'), withBoth('g', 'c'), gated])
        await insertOne(store, { traffic })
      await insertOne(store, { name: 'free', traffic: inGroup('g') })
      await insertOne(store, { name: 'free' })
    }
    let done = 0
    for (let round = 0; round < 40; round++) {
      const claimed = await claim(store, 20)
      assert.ok(claimed.length <= 6)
      assert.ok(claimed.filter(({ name }) => name === 'greet').length <= 5)
      assert.ok(claimed.filter(({ group }) => group === 'g').length <= 4)
      for (const key of ['a', 'b', 'c']) assert.ok(claimed.filter((job) => job.key === key).length <= 2)
      done += claimed.length
      await completeAll(store, claimed)
      if (done === 60) break
      assert.ok(claimed.length >= 4, `work goes on: ${claimed.length} in round ${round}`)
    }
    assert.equal(done, 60)
  })
}

function concurrencyOf(test: Test, limited: Limited): void {
  const { what, job } = limited

  test(`the concurrency of ${what} holds for all workers together`, async ({ store }) => {
    await setLimit(store, limited, { concurrency: 3 })
    const ids = await insertMany(store, 9, job)
    const claims = await Promise.all(
      Array.from({ length: 6 }, (_, i) => claim(store, 2, { worker: `worker-${i}` })),
    )
    const claimed = claims.flat()
    assert.equal(claimed.length, 3)
    assert.deepEqual(
      await ask(store, 5),
      { settled: [], claimed: [], opens: undefined },
      'only an end opens it',
    )
    const next = await Promise.all(
      claims.map(async (mine, i) => {
        await completeAll(store, mine, `worker-${i}`)
        return claim(store, 2, { worker: `worker-${i}` })
      }),
    )
    assert.equal(next.flat().length, 3)
    assert.deepEqual(idsOf([...claimed, ...next.flat()]).sort(), ids.slice(0, 6).sort())
  })

  test(`the concurrency of ${what}: one exchange ends a job and takes the next`, async ({ store }) => {
    await setLimit(store, limited, { concurrency: 1 })
    const ids = await insertMany(store, 5, job)
    const seen: string[] = []
    let [running] = await claim(store, 9)
    while (running !== undefined) {
      seen.push(running.id)
      const settlements = [{ id: running.id, token: running.token, outcome: complete(), inserts: undefined }]
      const { claimed } = await store.exchange({ worker: 'worker', settlements, claim: claimRequest(9) })
      assert.ok(claimed.length <= 1)
      running = claimed[0]
    }
    assert.deepEqual(seen, ids)
  })

  test(`the concurrency of ${what} is set, raised, lowered and cleared while jobs wait and run`, async ({
    store,
  }) => {
    await insertMany(store, 30, job)
    const running = [...(await claim(store, 2))]
    const take = async (expected: number) => {
      const claimed = await claim(store, 30)
      assert.equal(claimed.length, expected)
      running.push(...claimed)
    }
    const end = async (count: number) => completeAll(store, running.splice(0, count))
    await setLimit(store, limited, { concurrency: 4 })
    await take(2)
    await setLimit(store, limited, { concurrency: 6 })
    await take(2)
    await setLimit(store, limited, { concurrency: 2 })
    await take(0)
    await end(4)
    await take(0)
    await end(1)
    await take(1)
    await setLimit(store, limited, { concurrency: 0 })
    await end(2)
    await take(0)
    await setLimit(store, limited, { concurrency: 5 })
    await take(5)
    await choose(store, limited.on, { limit: null, each: null })
    await take(30 - 2 - 2 - 2 - 1 - 5)
  })

  test(`the concurrency of ${what}: a job that is cancelled or removed while it waits leaves no trace`, async ({
    store,
  }) => {
    await setLimit(store, limited, { concurrency: 1 })
    const [first, second, third, fourth, fifth] = (await insertMany(store, 5, job)) as [
      string,
      string,
      string,
      string,
      string,
    ]
    const [running] = await claim(store, 5)
    assert.equal(running?.id, first)
    await store.operate({ ids: [second] }, { do: 'cancel', reason: 'no', retain: 1_000 })
    await store.operate({ ids: [third] }, { do: 'remove' })
    await settle(store, running as ClaimedJob, complete())
    const [next] = await claim(store, 5)
    assert.equal(next?.id, fourth)
    await store.operate({ ids: [fifth] }, { do: 'cancel', reason: 'no', retain: 0 })
    await settle(store, next as ClaimedJob, complete())
    assert.deepEqual(await ask(store, 5), { settled: [], claimed: [], opens: undefined })
    const gate = await gateOf(store, limited.gate)
    assert.deepEqual([gate?.pending ?? 0, gate?.running ?? 0], [0, 0])
    await replay(store, second)
    assert.deepEqual(idsOf(await claim(store, 5)), [second])
  })

  test(`the concurrency of ${what}: an id that stands is inserted once`, async ({ store }) => {
    await setLimit(store, limited, { concurrency: 1 })
    const jobs = newJobs(3, job)
    await store.insert(jobs)
    const [running] = await claim(store, 9)
    const results = await store.insert([...jobs, ...newJobs(1, job)])
    assert.deepEqual(
      results.map(({ status, state }) => `${status} ${state}`),
      ['duplicate running', 'duplicate pending', 'duplicate pending', 'inserted pending'],
    )
    let [next] = [running]
    let ran = 0
    for (; next !== undefined; ran++) {
      await settle(store, next, complete())
      next = (await claim(store, 9))[0]
    }
    assert.equal(ran, 4)
  })
}

async function limitAll(store: Store, concurrency: number): Promise<void> {
  await choose(store, queueGate(), { limit: { concurrency }, each: { concurrency } })
  await choose(store, jobGate(), { limit: { concurrency }, each: { concurrency } })
}

async function two(store: Store): Promise<[ClaimedJob, ClaimedJob]> {
  const [first, second, ...others] = await claim(store, 5)
  assert.ok(first && second)
  assert.deepEqual(others, [])
  return [first, second]
}
