import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  fresh,
  idsOf,
  insertMany,
  insertOne,
  lease,
  newJob,
  read,
  retention,
  running,
  settle,
  sorted,
  statesOf,
  sweep,
  type Test,
  timeOf,
  totalOf,
} from './helpers.js'
import { inGroup } from './traffic-helpers.js'

export function claimTests(test: Test): void {
  test('a claim hands out all that a worker needs', async ({ store, advance }) => {
    const createdAt = await timeOf(store)
    const given = newJob({ lane: 3, name: 'resize', tags: ['t'], metadata: '1', overrides: '{"timeout":1}' })
    await store.insert([given])
    await advance(7)
    const request = claimRequest()
    const { settled, claimed } = await store.exchange({ worker: 'w', settlements: [], claim: request })
    assert.deepEqual(settled, [])
    const [job] = claimed
    assert.ok(job)
    assert.ok(job.token.length >= request.token.length, 'the claim’s token is part of the job’s')
    const { delay, runAt, traffic, dedupe, ...kept } = given
    assert.deepEqual(job, {
      ...kept,
      token: job.token,
      attempt: 1,
      crashes: 0,
      createdAt,
      readyAt: createdAt,
      startedAt: createdAt + 7,
      retryDelay: 0,
      group: undefined,
      key: undefined,
      suspect: false,
      family: undefined,
      guard: undefined,
      stepped: false,
      cancelReason: undefined,
    })
  })

  test('an attempt counts from its claim, for readers too', async ({ store, advance }) => {
    await advance(3)
    const now = await timeOf(store)
    const job = await running(store, {}, 'w7')
    const record = await read(store, job.id)
    assert.equal(record.state, 'running')
    assert.equal(record.attempt, 1)
    assert.equal(record.startedAt, now)
    assert.equal(record.worker, 'w7')
    assert.equal(record.finishedAt, undefined)
  })

  test('an empty store, an unknown queue and no room give nothing', async ({ store }) => {
    assert.deepEqual(await claim(store, 5), [])
    await insertOne(store)
    assert.deepEqual(await claim(store, 5, { queues: ['nobody'] }), [])
    assert.deepEqual(await claim(store, 0), [])
    const nothing = await store.exchange({ worker: 'w', settlements: [], claim: undefined })
    assert.deepEqual(nothing, { settled: [], claimed: [], opens: undefined })
    assert.equal((await claim(store, 5)).length, 1)
  })

  test('no more than the room, first in first out, each job once', async ({ store }) => {
    const ids = [...(await insertMany(store, 7)), ...(await insertMany(store, 6))]
    const claimed: ClaimedJob[] = []
    for (const count of [1, 3, 0, 5, 10]) {
      const jobs = await claim(store, count, { worker: fresh('w') })
      assert.ok(jobs.length <= count)
      claimed.push(...jobs)
    }
    assert.deepEqual(idsOf(claimed), ids)
    assert.equal(new Set(claimed.map((job) => `${job.id} ${job.token}`)).size, ids.length)
  })

  test('jobs that became due, by age or by hand, can be claimed; others cannot', async ({
    store,
    advance,
  }) => {
    const soon = await insertOne(store, { delay: 10 })
    const promoted = await insertOne(store, { delay: 1_000 })
    await insertOne(store, { delay: 11 })
    await store.operate({ ids: [promoted] }, { do: 'promote' })
    await advance(10)
    await sweep(store)
    assert.deepEqual(idsOf(await claim(store, 10)).sort(), [soon, promoted].sort())
  })

  test('a claim tells since when the job was ready', async ({ store, advance }) => {
    const now = await timeOf(store)
    const due = await insertOne(store, { delay: 10 })
    const promoted = await insertOne(store, { delay: 1_000 })
    await advance(5)
    await store.operate({ ids: [promoted] }, { do: 'promote' })
    const plain = await insertOne(store)
    await advance(10)
    await sweep(store)
    await advance(10)
    const readyAt = Object.fromEntries((await claim(store, 3)).map((job) => [job.id, job.readyAt]))
    assert.deepEqual(readyAt, { [due]: now + 15, [promoted]: now + 5, [plain]: now + 5 })
  })

  test('a claim repeated with its token returns what it holds, and takes no more', async ({
    store,
    advance,
  }) => {
    await insertMany(store, 5)
    const request = { worker: 'w', settlements: [], claim: claimRequest(2) }
    const first = await store.exchange(request)
    await advance(10)
    const again = await store.exchange(request)
    assert.deepEqual(again.claimed, first.claimed)
    assert.equal((await statesOf(store)).running, 2)
    assert.equal((await read(store, idsOf(first.claimed)[0] as string)).attempt, 1)
  })

  test('a repeated claim returns what it holds, also when the line is empty', async ({ store }) => {
    await insertMany(store, 2)
    const request = { worker: 'w', settlements: [], claim: claimRequest(5) }
    const { claimed } = await store.exchange(request)
    assert.equal(claimed.length, 2)
    assert.deepEqual((await store.exchange(request)).claimed, claimed)
    await store.configure({ queue: 'main', paused: true })
    assert.deepEqual((await store.exchange(request)).claimed, claimed, 'or the queue is paused')
  })

  test('a repeated claim leaves out what was settled', async ({ store }) => {
    await insertMany(store, 5)
    const request = { worker: 'w', settlements: [], claim: claimRequest(2) }
    const { claimed } = await store.exchange(request)
    await settle(store, claimed[0] as ClaimedJob, complete(), { worker: 'w' })
    assert.deepEqual((await store.exchange(request)).claimed, claimed.slice(1))
    assert.equal((await statesOf(store)).running, 1)
  })

  for (const [name, fields] of [
    ['plain jobs', {}],
    ['jobs of a group', { traffic: inGroup('a') }],
  ] as const) {
    test(`a repeated claim leaves out what is settled with it: ${name}`, async ({ store }) => {
      await insertMany(store, 5, fields)
      const request = { worker: 'w', settlements: [], claim: claimRequest(3) }
      const { claimed } = await store.exchange(request)
      const forgotten = complete(undefined, { ...retention, completed: 0 })
      const settlements = [complete(), forgotten].map((outcome, i) => {
        const { id, token } = claimed[i] as ClaimedJob
        return { id, token, outcome, inserts: undefined }
      })
      const again = await store.exchange({ ...request, settlements })
      assert.deepEqual(again.settled, ['applied', 'applied'])
      assert.deepEqual(again.claimed, claimed.slice(2))
    })
  }

  test('a repeated claim is known after other claims', async ({ store }) => {
    await insertMany(store, 5)
    const request = { worker: 'w', settlements: [], claim: claimRequest(2) }
    const { claimed } = await store.exchange(request)
    await claim(store, 1, { worker: 'w' })
    assert.deepEqual((await store.exchange(request)).claimed, claimed)
    assert.equal((await statesOf(store)).running, 3)
  })

  test('an exchange repeated as a whole: settled once, claimed once', async ({ store }) => {
    await insertMany(store, 3)
    const job = await claimOne(store, 'w')
    const settlements = [{ id: job.id, token: job.token, outcome: complete('1'), inserts: [newJob()] }]
    const request = { worker: 'w', settlements, claim: claimRequest(2) }
    const first = await store.exchange(request)
    const again = await store.exchange(request)
    assert.deepEqual([first.settled, again.settled], [['applied'], ['lost']])
    assert.deepEqual(again.claimed, first.claimed)
    assert.equal(await totalOf(store, 'enqueued'), 4)
  })

  test('a claim that takes jobs renews the lease of its worker', async ({ store, advance }) => {
    const first = await running(store, {}, 'w')
    await advance(lease - 1)
    const second = await running(store, {}, 'w')
    await advance(lease - 1)
    assert.deepEqual((await sweep(store)).orphans, [])
    await advance(1)
    assert.deepEqual(sorted(idsOf((await sweep(store)).orphans)), sorted([first.id, second.id]))
  })

  test('claims take turns with a backlog of other states without losing their place', async ({ store }) => {
    await insertMany(store, 50, { delay: 10_000 })
    const first = await insertMany(store, 3)
    await insertMany(store, 3, { queue: 'other' })
    const second = await insertMany(store, 3)
    assert.deepEqual(idsOf(await claim(store, 10)), [...first, ...second])
  })
}
