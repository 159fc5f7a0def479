import assert from 'node:assert/strict'
import type { ClaimedGuard, GuardRequest, GuardResult } from '../../core/guard.js'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import { crashed, type Outcome, released, snoozed } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import { childOf, parent } from './family-jobs.js'
import type { StoreHarness } from './harness.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  die,
  failureOf,
  insertMany,
  insertOne,
  lostWorker,
  newJob,
  rescue,
  retention,
  retryIn,
  running,
  settle,
  stateOf,
  statesOf,
  stop,
  sweep,
  type Test,
  wait,
} from './helpers.js'
import { done } from './steps.js'

const day = 86_400_000

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

  test('a dead job that is replayed takes the key again, or waits for who has it now', async ({ store }) => {
    const [dead, other] = await insertMany(store, 2, guarded())
    const [first, second] = await claim(store, 2)
    await settle(store, as(second), snoozed(60_000))
    await settle(store, as(first), die())
    await store.operate({ ids: [other as string] }, { do: 'promote' })
    const holder = await claimOne(store)
    assert.deepEqual([holder.id, holder.guard?.status], [other, 'begun'])
    await store.operate({ ids: [dead as string] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    const replayed = await claimOne(store)
    assert.deepEqual([replayed.id, replayed.guard?.status], [dead, 'busy'])
    await settle(store, holder, die())
    await settle(store, replayed, released())
    assert.equal((await claimOne(store)).guard?.status, 'begun')
  })

  test('a completed job that is replayed runs again: its own record does not stop it', async ({ store }) => {
    const id = await insertOne(store, guarded())
    await settle(store, await claimOne(store), complete('1'))
    await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
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
      await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
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

  for (const [what, end, found] of [
    ['is removed', (store: Store, id: string) => store.operate({ ids: [id] }, { do: 'remove' }), 'begun'],
    [
      'is replayed and completes',
      async (store: Store, id: string) => {
        await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
        const job = await claimOne(store)
        assert.equal(job.guard?.status, 'begun')
        await settle(store, job, complete('1'))
      },
      'done',
    ],
    [
      'is replayed under another key',
      (store: Store, id: string) => {
        const change = { guard: { key: 'other', retain: 1_000 } }
        return store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change })
      },
      'begun',
    ],
  ] as const) {
    test(`a job that unwinds and died, with steps or not, has its key until it ${what}`, async ({
      store,
      advance,
    }) => {
      const job = await running(store, { ...guarded(), queue: 'main', unwinds: true })
      await settle(store, job, die())
      assert.equal((await foundBy(store)).status, 'busy')
      await advance(retention.dead - 1)
      await sweep(store)
      assert.equal((await foundBy(store)).status, 'busy')
      await end(store, job.id)
      assert.equal((await foundBy(store)).status, found)
    })
  }

  test('its key is free when it is kept no longer', async ({ store, advance }) => {
    const report = { progress: undefined, logs: undefined, steps: [done('s')] }
    const unwinds = { ...guarded(), queue: 'main', unwinds: true }
    await settle(store, await running(store, unwinds), die(undefined, { completed: 0, dead: 0 }), { report })
    const job = await running(store, unwinds)
    assert.equal(job.guard?.status, 'begun')
    await settle(store, job, die(), { report })
    await advance(retention.dead)
    await sweep(store)
    assert.equal((await foundBy(store)).status, 'begun')
  })

  test('one that was replayed has it as long as it takes', async ({ store, advance }) => {
    const job = await running(store, { ...guarded(), queue: 'main', unwinds: true })
    const report = { progress: undefined, logs: undefined, steps: [done('s')] }
    await settle(store, job, die(), { report })
    await store.operate({ ids: [job.id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    await advance(retention.dead)
    await sweep(store)
    assert.equal((await foundBy(store)).status, 'busy')
  })

  test('nobody waits for a replay that is for later', async ({ store, advance }) => {
    const id = await insertOne(store, guarded('k', 50_000))
    await settle(store, await claimOne(store), complete('1'))
    await store.operate({ ids: [id] }, { do: 'retry', delay: 1_000, spacing: 0, change: {} })
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
      await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
      assert.deepEqual((await store.operate({ ids: [id] }, command)).affected, [id])
      await insertOne(store, { ...guarded(), id })
      assert.equal((await claimOne(store)).guard?.status, 'done', 'the id is used by another job now')
    })
  }

  test('a parent that was done, is replayed, dies of a child and comes back with it runs', async ({
    store,
  }) => {
    const again = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
    const ofChild = { ...failureOf('greet', 'its child died'), code: 'CHILD_FAILED' }
    const whole = parent(guarded())
    const part = childOf([whole])
    await store.insert([whole, part])
    await settle(store, await claimOne(store), complete())
    await settle(store, await claimOne(store), complete('1'))
    await store.operate({ ids: [whole.id] }, again)
    await store.operate({ ids: [part.id] }, again)
    await settle(store, await claimOne(store), die())
    await settle(store, await claimOne(store), die(ofChild))
    assert.equal((await foundBy(store)).result, '1')
    await store.operate({ ids: [part.id] }, again)
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
    await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
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
    await store.operate({ ids: [as(second).id] }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    assert.equal((await claimOne(store)).guard?.status, 'done')
  })

  test('an id that is used again after its job is gone meets what came of it', async ({ store }) => {
    const id = await insertOne(store, guarded())
    await settle(store, await claimOne(store), complete('1', { completed: 0, dead: 0 }))
    await insertOne(store, { ...guarded(), id })
    assert.equal((await claimOne(store)).guard?.status, 'done')
  })

  test('a replay with another input has that input’s key', async ({ store }) => {
    const id = await insertOne(store, guarded('old'))
    await settle(store, await claimOne(store), die())
    const change = { input: '2', guard: { key: 'new', retain: day } }
    await store.operate({ ids: [id] }, { do: 'retry', delay: 0, spacing: 0, change })
    assert.equal((await claimOne(store)).guard?.key, 'new')
    assert.deepEqual(
      [(await foundBy(store, 'old')).status, (await foundBy(store, 'new')).status],
      ['begun', 'busy'],
    )
  })

  test('a replay can give a job a guard, and take it', async ({ store }) => {
    const id = await insertOne(store)
    await settle(store, await claimOne(store), die())
    const retry = { do: 'retry', delay: 0, spacing: 0 } as const
    await store.operate({ ids: [id] }, { ...retry, change: { guard: { key: 'k', retain: day } } })
    const job = await claimOne(store)
    assert.equal(job.guard?.status, 'begun')
    await settle(store, job, die())
    await store.operate({ ids: [id] }, { ...retry, change: { guard: null } })
    assert.equal((await claimOne(store)).guard, undefined)
    assert.equal((await foundBy(store)).status, 'begun')
    assert.equal((await statesOf(store)).running, 1)
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

const nothing = { result: undefined, retryIn: undefined }

function guarded(key = 'k', retain = day): Partial<NewJob> {
  return { guard: { key, retain } }
}

function as<T>(value: T | undefined): T {
  assert.ok(value)
  return value
}

function statuses(jobs: readonly ClaimedJob[]): Map<string, ClaimedGuard['status'] | undefined> {
  return new Map(jobs.map(({ id, guard }) => [id, guard?.status]))
}

type Word = GuardRequest extends infer R ? (R extends GuardRequest ? Omit<R, 'key'> : never) : never

function ask(store: Store, word: Word, key = 'k'): Promise<GuardResult> {
  return store.guard({ ...word, key } as GuardRequest)
}

function begin(store: Store, holder = 'a', lease = 10_000): Promise<GuardResult> {
  return ask(store, { do: 'begin', holder, lease })
}

/** What a stranger finds under the key. One that finds it free lets go at once. */
async function foundBy(store: Store, key = 'k'): Promise<GuardResult> {
  const found = await ask(store, { do: 'begin', holder: 'stranger', lease: 1_000 }, key)
  if (found.status === 'begun') await ask(store, { do: 'fail', holder: 'stranger' }, key)
  return found
}
