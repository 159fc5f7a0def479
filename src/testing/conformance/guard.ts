import assert from 'node:assert/strict'
import type { ClaimedGuard } from '../../core/guard.js'
import type { ClaimedJob } from '../../core/job.js'
import { crashed, type Outcome, released, snoozed } from '../../core/lifecycle.js'
import { as, day, foundBy, guarded } from './guard-jobs.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  die,
  insertMany,
  insertOne,
  lostWorker,
  newJob,
  rescue,
  retention,
  retryIn,
  settle,
  stateOf,
  stop,
  sweep,
  type Test,
  wait,
} from './helpers.js'

export function guardTests(test: Test): void {
  test('the first claim takes the key; the next job of it is busy until that one has ended', async ({
    store,
  }) => {
    await insertMany(store, 2, guarded())
    const [first, second] = await claim(store, 2)
    assert.deepEqual(first?.guard, { key: 'k', retain: day, status: 'begun', ...nothing })
    assert.deepEqual(second?.guard, {
      key: 'k',
      retain: day,
      status: 'busy',
      result: undefined,
      retryIn: 100,
    })
    await settle(store, as(second), snoozed(10))
    await settle(store, as(first), complete('"paid"'))
    await store.operate({ ids: [as(second).id] }, { do: 'promote' })
    const again = await claimOne(store)
    assert.deepEqual(again.guard, {
      key: 'k',
      retain: day,
      status: 'done',
      result: '"paid"',
      retryIn: undefined,
    })
    assert.equal(again.attempt, 1, 'to be put off spends no attempt')
  })

  test('jobs without a guard, and those of other keys, have nothing to do with it', async ({ store }) => {
    await insertOne(store, guarded())
    await insertOne(store)
    await insertOne(store, guarded('other'))
    const jobs = await claim(store, 3)
    assert.deepEqual(jobs.map(({ guard }) => guard?.status).sort(), ['begun', 'begun', undefined])
  })

  test('who waits looks again after a quarter of the time that the holder has had', async ({
    store,
    advance,
  }) => {
    await insertOne(store, guarded())
    await claimOne(store)
    const looks: (number | undefined)[] = []
    for (const time of [0, 399, 1, 3_600, 36_000, 1_000_000]) {
      await advance(time)
      looks.push((await foundBy(store)).retryIn)
    }
    assert.deepEqual(looks, [100, 100, 100, 1_000, 10_000, 60_000])
  })

  for (const [what, outcome] of [
    ['retried', retryIn(5)],
    ['put off', snoozed(5)],
    ['given back', released()],
    ['waiting', wait()],
  ] as const) {
    test(`a job that is ${what} keeps its key`, async ({ store, advance }) => {
      const id = await insertOne(store, guarded())
      await settle(store, await claimOne(store), outcome)
      assert.equal((await foundBy(store)).status, 'busy')
      if (outcome.to === 'blocked') return
      await advance(5)
      await sweep(store)
      const [job] = await claim(store)
      assert.deepEqual([job?.id, job?.guard?.status], [id, 'begun'])
    })
  }

  const ends: [string, Outcome][] = [
    ['died', die()],
    ['was cancelled', stop()],
    ['died and is not kept', die(undefined, { completed: 0, dead: 0 })],
    ['was cancelled and is not kept', stop('no', { completed: 0, dead: 0 })],
  ]
  for (const [what, outcome] of ends) {
    test(`a job that ${what} lets go`, async ({ store }) => {
      await insertOne(store, guarded())
      await settle(store, await claimOne(store), outcome)
      assert.equal((await foundBy(store)).status, 'begun')
    })
  }

  test('a cancel that was asked for lets go when the job comes back', async ({ store }) => {
    const id = await insertOne(store, guarded())
    const job = await claimOne(store)
    await store.operate({ ids: [id] }, { do: 'cancel', reason: 'no', retain: 1_000 })
    assert.equal(await settle(store, job, retryIn(5)), 'cancelled')
    assert.equal((await foundBy(store)).status, 'begun')
  })

  for (const command of [
    { do: 'cancel', reason: 'no', retain: 1_000 },
    { do: 'cancel', reason: 'no', retain: 0 },
    { do: 'remove' },
  ] as const) {
    test(`an operator's ${command.do} between attempts lets go (${JSON.stringify(command)})`, async ({
      store,
    }) => {
      const id = await insertOne(store, guarded())
      await settle(store, await claimOne(store), retryIn(5))
      await store.operate({ ids: [id] }, command)
      assert.equal((await foundBy(store)).status, 'begun')
    })
  }

  test('what came of it outlives the job, for its own time', async ({ store, advance }) => {
    await insertOne(store, guarded('k', 500))
    await settle(store, await claimOne(store), complete('1', { completed: 0, dead: 0 }))
    await advance(499)
    await sweep(store)
    assert.deepEqual(await foundBy(store), { status: 'done', result: '1', retryIn: undefined })
    await advance(1)
    assert.equal((await foundBy(store)).status, 'begun')
  })

  test('a removed job leaves what came of it', async ({ store }) => {
    const id = await insertOne(store, guarded())
    await settle(store, await claimOne(store), complete('1'))
    await store.operate({ ids: [id] }, { do: 'remove' })
    assert.equal((await foundBy(store)).status, 'done')
  })

  test('who completes by what another did writes nothing anew', async ({ store, advance }) => {
    await insertMany(store, 2, guarded('k', 500))
    const [first, second] = await claim(store, 2)
    await settle(store, as(first), complete('1'))
    await advance(400)
    await settle(store, as(second), complete('2'))
    assert.equal((await foundBy(store)).result, '1')
    await advance(100)
    assert.equal((await foundBy(store)).status, 'begun')
  })

  test('the job of a lost worker has its key until it is rescued, and after that', async ({
    store,
    advance,
  }) => {
    await insertOne(store, { ...guarded(), maxCrashes: 2 })
    const zombie = await claimOne(store, 'one')
    await advance(60_000)
    assert.equal((await foundBy(store)).status, 'busy')
    const [orphan] = (await sweep(store)).orphans
    assert.equal(await rescue(store, as(orphan)), 'applied')
    assert.equal((await foundBy(store)).status, 'busy')
    const again = await claimOne(store, 'two')
    assert.equal(again.guard?.status, 'begun')
    assert.equal(await settle(store, zombie, complete('"late"'), { worker: 'one' }), 'lost')
    assert.equal((await foundBy(store)).status, 'busy')
    await advance(60_000)
    const [last] = (await sweep(store)).orphans
    assert.ok(last)
    await settle(store, last, crashed(last, lostWorker(last.name), retention), {
      worker: 'two',
      rescue: true,
    })
    assert.equal(await stateOf(store, last.id), 'dead')
    assert.equal((await foundBy(store)).status, 'begun')
  })

  test('a claim that is repeated finds the same', async ({ store }) => {
    await insertMany(store, 2, guarded())
    const request = { worker: 'worker', settlements: [], claim: claimRequest(2) }
    const { claimed } = await store.exchange(request)
    const again = await store.exchange(request)
    assert.deepEqual(statuses(again.claimed), statuses(claimed))
    assert.deepEqual([...statuses(again.claimed).values()].sort(), ['begun', 'busy'])
  })

  test('a settlement that is repeated is lost and leaves the record', async ({ store }) => {
    await insertOne(store, guarded())
    const job = await claimOne(store)
    await settle(store, job, complete('1'))
    assert.equal(await settle(store, job, die()), 'lost')
    assert.deepEqual(await foundBy(store), { status: 'done', result: '1', retryIn: undefined })
  })

  test('an id that is used again after its job is gone meets what came of it', async ({ store }) => {
    const id = await insertOne(store, guarded())
    await settle(store, await claimOne(store), complete('1', { completed: 0, dead: 0 }))
    await insertOne(store, { ...guarded(), id })
    assert.equal((await claimOne(store)).guard?.status, 'done')
  })

  test('a waiting job that becomes another one lets go of its key', async ({ store }) => {
    const dedupe = { key: 'd', mode: 'replace', window: 0, most: 0 } as const
    const id = await insertOne(store, { ...guarded('old'), dedupe })
    await settle(store, await claimOne(store), retryIn(60_000))
    const [result] = await store.insert([newJob({ ...guarded('new'), dedupe })])
    assert.deepEqual([result?.status, result?.id], ['replaced', id])
    assert.equal((await foundBy(store, 'old')).status, 'begun')
    const job = await claimOne(store)
    assert.deepEqual([job.guard?.key, job.guard?.status], ['new', 'begun'])
  })

  test('jobs of a queue with limits have guards too', async ({ store }) => {
    await store.configure({
      gate: { of: 'job', name: 'greet' },
      change: { limit: { concurrency: 5 } },
      declared: true,
    })
    const traffic = { gated: true, group: undefined, key: undefined }
    await insertMany(store, 2, { ...guarded(), traffic })
    const jobs = await claim(store, 2)
    assert.deepEqual(
      jobs.map(({ guard }) => guard?.status),
      ['begun', 'busy'],
    )
    for (const job of jobs) await settle(store, job, complete())
    assert.equal((await foundBy(store)).status, 'done')
  })

  test('completions in one exchange with others write their records', async ({ store }) => {
    const keys = ['a', undefined, 'b', undefined, undefined]
    await store.insert(keys.map((key) => newJob(key === undefined ? {} : guarded(key))))
    const jobs = await claim(store, 5)
    const settlements = jobs.map(({ id, token, guard }) => ({
      id,
      token,
      outcome: complete(`"${guard?.key ?? ''}"`),
      inserts: undefined,
    }))
    const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.deepEqual(
      settled,
      keys.map(() => 'applied'),
    )
    assert.equal((await foundBy(store, 'a')).result, '"a"')
    assert.equal((await foundBy(store, 'b')).result, '"b"')
  })

  test('two handles see the same keys', async ({ store, second }) => {
    if (second === undefined) return
    const other = await second()
    await insertMany(store, 2, guarded())
    const one = await claimOne(store, 'one')
    const two = await claimOne(other, 'two')
    assert.deepEqual([one.guard?.status, two.guard?.status], ['begun', 'busy'])
    await settle(store, one, complete('1'), { worker: 'one' })
    await settle(other, two, released(), { worker: 'two' })
    assert.deepEqual((await claimOne(other, 'two')).guard?.result, '1')
  })
}

const nothing = { result: undefined, retryIn: undefined }

function statuses(jobs: readonly ClaimedJob[]): Map<string, ClaimedGuard['status'] | undefined> {
  return new Map(jobs.map(({ id, guard }) => [id, guard?.status]))
}
