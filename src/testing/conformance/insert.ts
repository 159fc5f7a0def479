import assert from 'node:assert/strict'
import { jobStates, type NewJob } from '../../core/job.js'
import {
  claim,
  claimOne,
  complete,
  exists,
  idsOf,
  insertOne,
  jobIn,
  listAll,
  newJob,
  newJobs,
  read,
  running,
  settle,
  stateOf,
  statesOf,
  succeeds,
  sweep,
  type Test,
  timeOf,
  totalOf,
  unreadable,
} from './helpers.js'
import { nastyDocuments, nastyTexts } from './texts.js'

export function insert(test: Test): void {
  test('a job that is due now is pending, with all that was given', async ({ store }) => {
    const now = await timeOf(store)
    const job = newJob({ lane: 1, maxAttempts: 7, maxCrashes: 5, overrides: '{"timeout":5}' })
    assert.deepEqual(await store.insert([job]), [{ status: 'inserted', state: 'pending' }])
    const { id, name, queue, lane, input, maxAttempts, maxCrashes, overrides } = job
    assert.deepEqual(await read(store, id), {
      ...{ id, name, queue, lane, input, maxAttempts, maxCrashes, overrides },
      state: 'pending',
      attempt: 0,
      crashes: 0,
      createdAt: now,
      dueAt: undefined,
      startedAt: undefined,
      finishedAt: undefined,
      expiresAt: undefined,
      worker: undefined,
      result: undefined,
      failure: undefined,
      cancelReason: undefined,
      progress: undefined,
      tags: undefined,
      metadata: undefined,
      group: undefined,
      key: undefined,
      family: undefined,
      unwinds: false,
    })
    assert.deepEqual(await store.trail(id), { attempts: [], logs: [], steps: [] })
  })

  test('an empty batch is fine', async ({ store }) => {
    assert.deepEqual(await store.insert([]), [])
  })

  test("a delay counts from the store's now", async ({ store, advance }) => {
    await advance(123)
    const now = await timeOf(store)
    const job = newJob({ delay: 500 })
    assert.deepEqual(await store.insert([job]), [{ status: 'inserted', state: 'scheduled' }])
    const record = await read(store, job.id)
    assert.equal(record.state, 'scheduled')
    assert.equal(record.dueAt, now + 500)
  })

  test('runAt in the future schedules and wins over delay', async ({ store }) => {
    const now = await timeOf(store)
    const later = await insertOne(store, { runAt: now + 1, delay: 9_999 })
    assert.equal((await read(store, later)).dueAt, now + 1)
    const ready = await insertOne(store, { runAt: now, delay: 9_999 })
    assert.equal(await stateOf(store, ready), 'pending')
  })

  test('runAt now, in the past or at the epoch is due at once', async ({ store }) => {
    const now = await timeOf(store)
    for (const runAt of [now, now - 1, now - 10 ** 10, 0]) {
      const [result] = await store.insert([newJob({ runAt })])
      assert.deepEqual(result, { status: 'inserted', state: 'pending' }, `runAt ${runAt}`)
    }
    assert.equal((await claim(store, 10)).length, 4)
  })

  test('a delay beyond 2^31 and beyond 2^32 ms is kept to the millisecond', async ({ store, advance }) => {
    const now = await timeOf(store)
    const delays = [2 ** 31 - 1, 2 ** 31, 2 ** 32 + 1, 10 * 365 * 24 * 3600_000]
    const jobs = delays.map((delay) => newJob({ delay }))
    await store.insert(jobs)
    let passed = 0
    for (const [i, delay] of delays.entries()) {
      const { id } = jobs[i] as NewJob
      assert.equal((await read(store, id)).dueAt, now + delay)
      await advance(delay - 1 - passed)
      await sweep(store)
      assert.equal(await stateOf(store, id), 'scheduled', `not one millisecond before ${delay}`)
      await advance(1)
      await sweep(store)
      assert.equal(await stateOf(store, id), 'pending', `at ${delay}`)
      passed = delay
    }
  })

  test('the same id twice gives one job, which stays as it stands', async ({ store, advance }) => {
    const job = newJob({ input: '"first"' })
    await store.insert([job])
    const before = await read(store, job.id)
    await advance(5)
    const again = {
      ...job,
      input: '"second"',
      lane: 0,
      name: 'other',
      queue: 'other',
      delay: 50,
      tags: ['x'],
    }
    assert.deepEqual(await store.insert([again]), [{ status: 'duplicate', state: 'pending' }])
    assert.deepEqual(await read(store, job.id), before)
    assert.equal((await statesOf(store)).pending, 1)
    assert.equal((await statesOf(store, 'other')).scheduled, 0)
    assert.equal(await totalOf(store, 'enqueued'), 1)
    assert.equal((await claim(store, 10, { queues: ['main', 'other'] })).length, 1)
  })

  for (const state of jobStates) {
    test(`a duplicate tells the state of the job that stands: ${state}`, async ({ store, advance }) => {
      const id = await jobIn(store, state)
      await advance(1)
      const before = await read(store, id)
      assert.deepEqual(await store.insert([newJob({ id })]), [{ status: 'duplicate', state }])
      assert.deepEqual(await read(store, id), before)
    })
  }

  test('results stand in the order of the jobs, duplicates inside the batch included', async ({ store }) => {
    const [a, b, c] = newJobs(3) as [NewJob, NewJob, NewJob]
    const later = newJob({ delay: 1 })
    await store.insert([b])
    assert.deepEqual(await store.insert([a, b, later, a, c, later]), [
      { status: 'inserted', state: 'pending' },
      { status: 'duplicate', state: 'pending' },
      { status: 'inserted', state: 'scheduled' },
      { status: 'duplicate', state: 'pending' },
      { status: 'inserted', state: 'pending' },
      { status: 'duplicate', state: 'scheduled' },
    ])
    assert.deepEqual(idsOf(await claim(store, 10)), [b.id, a.id, c.id])
  })

  test('an id is free again once its job is gone', async ({ store }) => {
    const job = newJob()
    await store.insert([job])
    await settle(store, await claimOne(store), complete(undefined, { completed: 0, dead: 0 }))
    assert.equal(await exists(store, job.id), false)
    assert.deepEqual(await store.insert([job]), [{ status: 'inserted', state: 'pending' }])
    assert.equal((await claimOne(store)).attempt, 1)
  })

  test('a batch is inserted whole or not at all', async ({ store }) => {
    const jobs = newJobs(10)
    const done = await succeeds(
      store.insert([...jobs.slice(0, 5), unreadable({ queue: 'other' }), ...jobs.slice(5)]),
    )
    const states = (await store.get(idsOf(jobs))).map((record) => record?.state)
    assert.deepEqual(
      states,
      jobs.map(() => (done ? 'pending' : undefined)),
    )
    assert.equal((await statesOf(store)).pending, done ? 10 : 0)
    assert.equal(await totalOf(store, 'enqueued'), done ? 10 : 0)
    await store.insert(jobs)
    assert.deepEqual(idsOf(await claim(store, 20)), idsOf(jobs), 'and the store goes on')
  })

  test('a batch of 5,000 keeps its order', async ({ store }) => {
    const jobs = newJobs(5_000)
    const results = await store.insert(jobs)
    assert.equal(results.length, 5_000)
    assert.ok(results.every((result) => result.status === 'inserted'))
    assert.equal((await statesOf(store)).pending, 5_000)
    const claimed: string[] = []
    for (let i = 0; i < 5; i++) claimed.push(...idsOf(await claim(store, 1_000)))
    assert.deepEqual(claimed, idsOf(jobs))
  })

  test('a batch of jobs that have nothing in common lands where each belongs', async ({ store }) => {
    const jobs = Array.from({ length: 60 }, (_, i) =>
      newJob({
        queue: `q${i % 3}`,
        lane: i % 4,
        name: `n${i % 2}`,
        maxAttempts: 1 + (i % 5),
        delay: i % 7 === 0 ? 5 : 0,
      }),
    )
    await store.insert(jobs)
    for (const job of jobs) {
      const { queue, lane, name, maxAttempts, state } = await read(store, job.id)
      const expected = { queue: job.queue, lane: job.lane, name: job.name, maxAttempts: job.maxAttempts }
      assert.deepEqual({ queue, lane, name, maxAttempts }, expected)
      assert.equal(state, job.delay > 0 ? 'scheduled' : 'pending')
    }
  })

  test('every text arrives as it was given', async ({ store }) => {
    const inputs = [...nastyTexts, ...nastyDocuments]
    const jobs = inputs.map((input) => newJob({ input, metadata: input, overrides: input }))
    await store.insert(jobs)
    const records = await store.get(idsOf(jobs))
    const claimed = await claim(store, inputs.length)
    for (const [i, input] of inputs.entries()) {
      for (const seen of [records[i], claimed[i]]) {
        assert.equal(seen?.input, input)
        assert.equal(seen?.metadata, input)
        assert.equal(seen?.overrides, input)
      }
    }
  })

  test('an input of 1 MiB arrives whole', async ({ store }) => {
    const input = JSON.stringify('ä'.repeat(512 * 1024 - 1))
    const id = await insertOne(store, { input })
    assert.equal((await read(store, id)).input, input)
    assert.equal((await claimOne(store)).input, input)
  })

  test('tags and metadata stay with the job to its end', async ({ store }) => {
    const tags = ['tenant:42', 'a/b', 'UPPER', 'x=1+1']
    const metadata = '{"trace":"00-ab"}'
    const job = await running(store, { tags, metadata })
    assert.deepEqual(job.tags, tags)
    assert.equal(job.metadata, metadata)
    await settle(store, job, complete())
    const record = await read(store, job.id)
    assert.deepEqual(record.tags, tags)
    assert.equal(record.metadata, metadata)
  })

  test('ids, names and queues are told apart by every letter', async ({ store }) => {
    const ids = [
      'a',
      'A',
      'a.',
      'a:b',
      'a/b',
      'a#',
      '@a',
      '0',
      '00',
      '-1',
      'a'.repeat(128),
      `${'a'.repeat(127)}b`,
    ]
    const results = await store.insert(
      ids.map((id) => newJob({ id, queue: id.includes('A') ? 'Main' : 'main' })),
    )
    assert.ok(results.every((result) => result.status === 'inserted'))
    assert.deepEqual(idsOf(await claim(store, 50, { queues: ['Main'] })), ['A'])
    assert.deepEqual(
      idsOf(await listAll(store, { state: 'pending' })).sort(),
      ids.filter((id) => id !== 'A').sort(),
    )
  })
}
