/** Groups of a queue take turns, by their weights; each can be paused and limited; idle ones leave nothing. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { planPicks, spreadTurns } from '../../core/lanes.js'
import { released } from '../../core/lifecycle.js'
import {
  claim,
  claimOne,
  complete,
  countBy,
  fresh,
  idsOf,
  insertMany,
  insertOne,
  lease,
  newJobs,
  retryIn,
  settle,
  sweep,
  type Test,
} from './helpers.js'
import {
  allGates,
  ask,
  choose,
  declare,
  drain,
  gateOf,
  groupGate,
  inGroup,
  jobGate,
  queueGate,
  rate,
  startAndComplete,
  withBoth,
  withKey,
} from './traffic-helpers.js'

export function groupTurns(test: Test): void {
  test('a group with thousands of jobs delays another’s first job by one turn at most', async ({ store }) => {
    await insertMany(store, 3_000, { traffic: inGroup('big') })
    await startAndComplete(store, 10)
    const id = await insertOne(store, { traffic: inGroup('small') })
    assert.ok(idsOf(await claim(store, 2)).includes(id))
  })

  test('groups take turns, first in first out inside each', async ({ store }) => {
    const a = await insertMany(store, 6, { traffic: inGroup('a') })
    const b = await insertMany(store, 3, { traffic: inGroup('b') })
    const c = await insertMany(store, 1, { traffic: inGroup('c') })
    const claimed: ClaimedJob[] = []
    for (let i = 0; i < 10; i++) claimed.push(await claimOne(store))
    const [first, second] = [claimed.slice(0, 3), claimed.slice(3, 5)]
    assert.deepEqual(idsOf(first).sort(), [a[0], b[0], c[0]].sort())
    assert.deepEqual(idsOf(second).sort(), [a[1], b[1]].sort())
    for (const [group, ids] of Object.entries({ a, b, c }))
      assert.deepEqual(idsOf(claimed.filter((job) => job.group === group)), ids)
  })

  test('one claim of many takes what many claims of one take', async ({ store }) => {
    for (const queue of ['one', 'many'])
      for (const group of ['a', 'b', 'a', 'c']) await insertMany(store, 5, { queue, traffic: inGroup(group) })
    const one = (await claim(store, 12, { queues: ['one'] })).map(({ group }) => group)
    const many: unknown[] = []
    for (let i = 0; i < 12; i++) many.push((await claim(store, 1, { queues: ['many'] }))[0]?.group)
    assert.deepEqual(one, many)
  })

  test('a group of weight 3 gets three jobs for another’s one', async ({ store }) => {
    await choose(store, groupGate('heavy'), { weight: 3 })
    for (const group of ['light', 'heavy']) await insertMany(store, 200, { traffic: inGroup(group) })
    assert.deepEqual(countBy(await claim(store, 100), 'group'), { heavy: 75, light: 25 })
  })

  test('weights come from the queue, the code or an operator, and change at run time', async ({ store }) => {
    await declare(store, queueGate(), { each: { weight: 2 } })
    await choose(store, groupGate('one'), { weight: 1 })
    for (const group of ['one', 'two']) await insertMany(store, 30, { traffic: inGroup(group) })
    assert.deepEqual(countBy(await claim(store, 30), 'group'), { one: 10, two: 20 })
    await claim(store, 30)
    await choose(store, groupGate('one'), { weight: 6 })
    for (const group of ['one', 'two']) await insertMany(store, 60, { traffic: inGroup(group) })
    assert.deepEqual(countBy(await claim(store, 40), 'group'), { one: 30, two: 10 })
  })

  test('a group that was away has no turns saved up', async ({ store }) => {
    await insertMany(store, 100, { traffic: inGroup('busy') })
    await insertOne(store, { traffic: inGroup('away') })
    await claim(store, 50)
    await insertMany(store, 50, { traffic: inGroup('away') })
    const { away = 0, busy = 0 } = countBy(await claim(store, 20), 'group')
    assert.ok(Math.abs(away - busy) <= 1, `${away} and ${busy}`)
  })

  test('a group that has come far in one lane is not behind in another', async ({ store }) => {
    await insertMany(store, 400, { lane: 0, traffic: inGroup('a') })
    await claim(store, 300)
    await insertMany(store, 100, { lane: 3, traffic: inGroup('b') })
    await insertMany(store, 100, { lane: 3, traffic: inGroup('a') })
    await claim(store, 100)
    const { a = 0, b = 0 } = countBy(await claim(store, 20), 'group')
    assert.ok(Math.abs(a - b) <= 1, `${a} and ${b} of 20`)
  })

  test('a group that has come far with one definition is not behind with another', async ({ store }) => {
    await choose(store, jobGate('limited'), { limit: { concurrency: 1_000 } })
    await insertMany(store, 400, { name: 'limited', traffic: withBoth('a', 'k') })
    await claim(store, 300)
    await insertMany(store, 100, { name: 'free', traffic: inGroup('b') })
    await insertMany(store, 100, { name: 'free', traffic: inGroup('a') })
    await claim(store, 100)
    const free = (await claim(store, 40)).filter(({ name }) => name === 'free')
    const { a = 0, b = 0 } = countBy(free, 'group')
    assert.ok(Math.abs(a - b) <= 2, `${a} and ${b} of ${free.length}`)
  })

  test('a retry comes back in turn, not behind all the work of its group', async ({ store, advance }) => {
    for (const group of ['a', 'b']) await insertMany(store, 100, { traffic: inGroup(group) })
    const jobs = await claim(store, 4)
    const job = jobs.find(({ group }) => group === 'a') as ClaimedJob
    await settle(store, job, retryIn(5))
    await advance(5)
    await sweep(store)
    assert.ok(idsOf(await claim(store, 6)).includes(job.id))
    const other = jobs.find(({ group }) => group === 'b') as ClaimedJob
    await settle(store, other, released())
    assert.ok(idsOf(await claim(store, 6)).includes(other.id))
  })

  test('many retries of one group leave the others their turns', async ({ store, advance }) => {
    await insertMany(store, 50, { traffic: inGroup('a') })
    const jobs = await claim(store, 50)
    for (const job of jobs) await settle(store, job, retryIn(5))
    await advance(5)
    await sweep(store)
    await insertMany(store, 50, { traffic: inGroup('b') })
    const { a = 0, b = 0 } = countBy(await claim(store, 20), 'group')
    assert.ok(Math.abs(a - b) <= 1, `${a} and ${b}`)
  })

  test('keys take turns where there is no group', async ({ store }) => {
    await insertMany(store, 500, { traffic: withKey('big') })
    const id = await insertOne(store, { traffic: withKey('small') })
    assert.ok(idsOf(await claim(store, 2)).includes(id))
  })

  for (const weights of [
    [8, 4, 2, 1],
    [1, 1, 1, 1],
    [2, 1, 1, 2],
    [1, 2, 2, 1],
  ]) {
    test(`jobs with and without a group share a lane; none starves, with lanes of ${weights.join(' : ')}`, async ({
      store,
    }) => {
      for (const lane of [0, 1, 2, 3]) {
        await insertMany(store, 120, { lane })
        await insertMany(store, 120, { lane, traffic: inGroup('g') })
      }
      const turns = spreadTurns(weights)
      const taken: ClaimedJob[] = []
      for (let turn = 0; turn < 120; turn++) {
        const room = { shared: 1, own: [0, 0, 0, 0] }
        const picks = planPicks(room, { strict: false, turns, reserved: [0, 0, 0, 0] }, ['main'], {
          turn,
          claim: turn,
        })
        const request = { token: fresh('token'), lease, room, picks, turn }
        taken.push(...(await store.exchange({ worker: 'w', settlements: [], claim: request })).claimed)
      }
      assert.equal(taken.length, 120)
      for (const [lane, weight] of weights.entries()) {
        const share = (120 * weight) / turns.length
        const mine = taken.filter((job) => job.lane === lane)
        assert.equal(mine.length, share)
        const grouped = mine.filter(({ group }) => group === 'g').length
        assert.ok(
          grouped >= share / 4 && grouped <= (share * 3) / 4,
          `${grouped} of ${share} in lane ${lane} have a group`,
        )
      }
    })
  }
}

export function groupSettings(test: Test): void {
  test('a paused group hands out nothing, the others go on, and it comes back where it was', async ({
    store,
  }) => {
    const off = await insertMany(store, 5, { traffic: inGroup('off') })
    const on = await insertMany(store, 5, { traffic: inGroup('on') })
    await choose(store, groupGate('off'), { paused: true })
    const late = await insertOne(store, { traffic: inGroup('off') })
    assert.deepEqual(idsOf(await claim(store, 20)), on)
    assert.deepEqual(await ask(store, 20), { settled: [], claimed: [], opens: undefined })
    const gate = await gateOf(store, groupGate('off'))
    assert.deepEqual([gate?.pending, gate?.room, gate?.chosen], [6, 0, { paused: true }])
    await choose(store, groupGate('off'), { paused: false })
    assert.deepEqual(idsOf(await claim(store, 20)), [...off, late])
  })

  test('pausing a group leaves what runs alone; it can be settled and retried, and then waits', async ({
    store,
  }) => {
    await insertMany(store, 2, { traffic: inGroup('g') })
    const [first, second] = await claim(store, 2)
    await choose(store, groupGate('g'), { paused: true })
    assert.equal(await settle(store, first as ClaimedJob, complete()), 'applied')
    assert.equal(await settle(store, second as ClaimedJob, released()), 'applied')
    assert.deepEqual(await claim(store, 9), [])
    await choose(store, groupGate('g'), { paused: null })
    assert.deepEqual(idsOf(await claim(store, 9)), [second?.id])
  })

  test('groups of the same name in two queues are two groups', async ({ store }) => {
    for (const queue of ['main', 'other']) await insertMany(store, 2, { queue, traffic: inGroup('g') })
    await choose(store, groupGate('g'), { paused: true })
    const claimed = await claim(store, 9, { queues: ['main', 'other'] })
    assert.deepEqual(
      claimed.map(({ queue }) => queue),
      ['other', 'other'],
    )
  })

  test('the depth of groups can be read while they wait and run', async ({ store }) => {
    for (const [group, count] of [
      ['a', 5],
      ['b', 3],
      ['c', 1],
    ] as const)
      await insertMany(store, count, { traffic: inGroup(group) })
    await insertMany(store, 2, { queue: 'other', traffic: inGroup('a') })
    await claim(store, 4)
    const depths = (await allGates(store, 'group', 'main')).map(({ ref, pending, running }) => [
      ref.name,
      pending,
      running,
    ])
    assert.deepEqual(depths.sort(), [
      ['a', 3, 2],
      ['b', 2, 1],
      ['c', 0, 1],
    ])
    assert.equal((await allGates(store, 'group')).length, 4)
    for (const limit of [1, 2, 3])
      assert.equal((await allGates(store, 'group', 'main', limit)).length, 3, `pages of ${limit}`)
  })

  test('a queue’s or definition’s gate is listed once it has settings, not because it has groups or keys', async ({
    store,
  }) => {
    await insertMany(store, 2, { traffic: withBoth('g', 'k') })
    assert.deepEqual(await allGates(store, 'queue'), [])
    assert.deepEqual(await allGates(store, 'job'), [])
    await choose(store, queueGate(), { each: { concurrency: 1 } })
    assert.deepEqual(
      (await allGates(store, 'queue')).map(({ ref }) => ref),
      [queueGate()],
    )
  })

  for (const [what, limit] of [
    ['no limit', {}],
    ['a concurrency', { concurrency: 2 }],
    ['a rate', { rate: rate(5, 50) }],
  ] as const) {
    test(`groups and keys that are done leave no gate behind: ${what}`, async (harness) => {
      const { store, advance } = harness
      await choose(store, queueGate(), { each: limit })
      await choose(store, jobGate(), { each: limit })
      for (let i = 0; i < 40; i++) await insertMany(store, 3, { traffic: withBoth(`g${i}`, `k${i}`) })
      assert.equal((await drain(harness)).length, 120)
      await advance(1_000)
      await insertOne(store, { name: 'other' })
      await startAndComplete(store, 9)
      await sweep(store)
      assert.deepEqual(await allGates(store, 'group'), [])
      assert.deepEqual(await allGates(store, 'key'), [])
    })
  }

  test('groups that come and go in one turn leave no gate behind', async ({ store }) => {
    const jobs = newJobs(3, { traffic: withBoth('g', 'k') })
    await Promise.all([store.insert(jobs), store.operate({ ids: idsOf(jobs) }, { do: 'remove' })])
    await Promise.all([
      choose(store, groupGate('h'), { weight: 2 }),
      choose(store, groupGate('h'), { weight: null }),
    ])
    // An engine with several connections may have done either pair in the other order.
    await store.operate({ ids: idsOf(jobs) }, { do: 'remove' })
    await choose(store, groupGate('h'), { weight: null })
    assert.deepEqual(await allGates(store, 'group'), [])
    assert.deepEqual(await allGates(store, 'key'), [])
  })

  test('jobs that are cancelled and replayed share the gate of those that came meanwhile', async ({
    store,
  }) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    const ids = await insertMany(store, 3, { traffic: withBoth('g', 'k') })
    await store.operate({ ids }, { do: 'cancel', reason: 'no', retain: 1_000 })
    assert.deepEqual(await allGates(store, 'key'), [])
    await insertMany(store, 3, { traffic: withBoth('g', 'k') })
    await store.operate({ ids }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    assert.equal((await gateOf(store, groupGate('g')))?.pending, 6)
    for (let i = 0; i < 6; i++) {
      const claimed = await claim(store, 9)
      assert.equal(claimed.length, 1)
      for (const job of claimed) await settle(store, job, complete())
    }
  })

  test('a group whose settings are cleared goes when it is done', async (harness) => {
    const { store } = harness
    await choose(store, groupGate('g'), { weight: 2, paused: true })
    await insertMany(store, 2, { traffic: inGroup('g') })
    await choose(store, groupGate('g'), { weight: null, paused: null })
    assert.equal((await drain(harness)).length, 2)
    assert.deepEqual(await allGates(store, 'group'), [])
  })
}
