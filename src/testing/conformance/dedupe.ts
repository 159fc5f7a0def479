import assert from 'node:assert/strict'
import type { NewJob } from '../../core/job.js'
import type { InsertResult, Store } from '../../core/store.js'
import type { Dedupe } from '../../core/traffic/dedupe.js'
import {
  claim,
  claimOne,
  complete,
  idsOf,
  insertOne,
  newJob,
  read,
  retryIn,
  settle,
  sorted,
  stateOf,
  statesOf,
  sweep,
  type Test,
  totalOf,
} from './helpers.js'

export function dedupeTests(test: Test): void {
  test('until-done: the first stands until it has ended', async ({ store }) => {
    const first = await insertOne(store, untilDone())
    assert.deepEqual(await add(store, untilDone()), { status: 'duplicate', state: 'pending', id: first })
    const job = await claimOne(store)
    assert.deepEqual(await add(store, untilDone()), { status: 'duplicate', state: 'running', id: first })
    await settle(store, job, retryIn(10))
    assert.deepEqual(await add(store, untilDone()), { status: 'duplicate', state: 'retrying', id: first })
    await store.operate({ ids: [first] }, { do: 'promote' })
    await settle(store, await claimOne(store), complete())
    assert.deepEqual(await add(store, untilDone()), { status: 'inserted', state: 'pending' })
    assert.equal(await totalOf(store, 'enqueued'), 2)
  })

  test('until-done: a job that leaves nothing behind frees its key', async ({ store }) => {
    await insertOne(store, untilDone())
    await settle(store, await claimOne(store), complete(undefined, { completed: 0, dead: 0 }))
    assert.equal((await add(store, untilDone())).status, 'inserted')
  })

  for (const [what, fields] of [
    ['for later', { delay: 1_000 }],
    ['in another lane', { lane: 0 }],
    ['in another queue', { queue: 'other' }],
    ['in a group', { traffic: { gated: false, group: 'g', key: undefined } }],
  ] as const) {
    test(`a job may take the place of one in the same call: ${what}`, async ({ store, advance }) => {
      const jobs = [
        newJob(),
        newJob({ ...replace(), input: '1' }),
        newJob({ ...replace(), input: '2', ...fields }),
        newJob(),
      ]
      const results = await store.insert(jobs)
      assert.deepEqual(
        results.map(({ status }) => status),
        ['inserted', 'inserted', 'replaced', 'inserted'],
      )
      const later = 'delay' in fields
      const queues = ['main', 'other']
      const claimed = await claim(store, 5, { queues })
      assert.equal(claimed.length, later ? 2 : 3)
      await advance(1_000)
      await sweep(store)
      const all = [...claimed, ...(await claim(store, 5, { queues }))]
      assert.deepEqual(sorted(idsOf(all)), sorted(idsOf(jobs.filter((_, i) => i !== 2))))
      assert.equal(all.find(({ id }) => id === jobs[1]?.id)?.input, '2')
      for (const job of all) assert.equal(await settle(store, job, complete()), 'applied')
      const { pending, scheduled, running } = await statesOf(store)
      assert.deepEqual([pending, scheduled, running], [0, 0, 0])
    })
  }

  test('keys of one definition are not those of another', async ({ store }) => {
    assert.equal((await add(store, { ...untilDone(), name: 'one' })).status, 'inserted')
    assert.equal((await add(store, { ...untilDone(), name: 'two' })).status, 'inserted')
    assert.equal((await add(store, untilDone('other'))).status, 'inserted')
    assert.equal((await statesOf(store)).pending, 3)
  })

  test('throttle: the first stands for its window, whether it has ended or not', async ({
    store,
    advance,
  }) => {
    const first = await insertOne(store, throttle(100))
    await settle(store, await claimOne(store), complete(undefined, { completed: 0, dead: 0 }))
    await advance(99)
    assert.deepEqual(await add(store, throttle(100)), { status: 'duplicate', state: undefined, id: first })
    await advance(1)
    assert.equal((await add(store, throttle(100))).status, 'inserted')
  })

  test('debounce: the last wins, delayed each time, up to the most', async ({ store, advance }) => {
    const first = newJob({ ...debounce(100, 250), input: '1' })
    assert.deepEqual(await add(store, first), { status: 'inserted', state: 'scheduled' })
    const { createdAt } = await read(store, first.id)
    for (const [input, dueAt] of [
      ['2', 180],
      ['3', 250],
      ['4', 250],
    ] as const) {
      await advance(80)
      const result = await add(store, { ...debounce(100, 250), input })
      assert.deepEqual(result, { status: 'replaced', state: 'scheduled', id: first.id })
      const record = await read(store, first.id)
      assert.deepEqual([record.input, record.dueAt], [input, createdAt + dueAt])
    }
    await advance(10)
    assert.equal((await sweep(store)).promoted, 1)
    assert.deepEqual(
      (await claim(store, 5)).map((job) => job.input),
      ['4'],
    )
    assert.equal((await add(store, debounce(100, 250))).status, 'inserted')
  })

  test('replace: the last wins while it waits, in the place of the first', async ({ store }) => {
    const first = await insertOne(store, { ...replace(), input: '"old"', tags: ['old'] })
    const other = await insertOne(store)
    const result = await add(store, {
      ...replace(),
      input: '"new"',
      tags: ['new'],
      metadata: '1',
      overrides: '{}',
    })
    assert.deepEqual(result, { status: 'replaced', state: 'pending', id: first })
    const [job, next] = await claim(store, 2)
    assert.deepEqual([job?.id, next?.id], [first, other])
    assert.deepEqual([job?.input, job?.tags, job?.metadata, job?.overrides], ['"new"', ['new'], '1', '{}'])
    assert.equal((await add(store, replace())).status, 'inserted', 'one that runs is left alone')
    assert.equal(await totalOf(store, 'enqueued'), 3)
  })

  test('replace: the standing job becomes the new one, with attempts, limits and a time of its own', async ({
    store,
  }) => {
    const belongs = (key: string) => ({ traffic: { gated: false, group: undefined, key } })
    const first = await insertOne(store, { ...replace(), ...belongs('a'), maxAttempts: 2 })
    await settle(store, await claimOne(store), retryIn(60_000))
    const other = { ...replace(), ...belongs('b'), lane: 0, maxAttempts: 5, input: '"new"' }
    assert.deepEqual(await add(store, other), { status: 'replaced', state: 'pending', id: first })
    const [job] = await claim(store)
    assert.deepEqual(
      [job?.id, job?.attempt, job?.maxAttempts, job?.lane, job?.key, job?.input],
      [first, 1, 5, 0, 'b', '"new"'],
    )
    const { gates } = await store.gates({ of: 'key', owner: 'greet', limit: 10 })
    assert.deepEqual(
      gates.map(({ ref, pending, running }) => [ref.name, pending, running]),
      [['b', 0, 1]],
    )
  })

  test('replace: a job that was due later is due when the new one says', async ({ store }) => {
    const first = await insertOne(store, { ...replace(), delay: 60_000 })
    assert.deepEqual(await add(store, replace()), { status: 'replaced', state: 'pending', id: first })
    assert.equal((await claimOne(store)).id, first)
    const second = await insertOne(store, replace())
    const later = { ...replace(), delay: 500 }
    assert.deepEqual(await add(store, later), { status: 'replaced', state: 'scheduled', id: second })
    assert.equal((await claim(store)).length, 0)
    assert.deepEqual(await statesOf(store), {
      ...(await statesOf(store)),
      pending: 0,
      scheduled: 1,
      running: 1,
    })
  })

  test('debounce: a newer input takes the place of one that waits for a retry or for a worker', async ({
    store,
    advance,
  }) => {
    const first = await insertOne(store, { ...debounce(100, 1_000), input: '"old"' })
    await advance(100)
    await sweep(store)
    await settle(store, await claimOne(store), retryIn(10))
    const newer = { ...debounce(100, 1_000), input: '"new"' }
    assert.deepEqual(await add(store, newer), { status: 'replaced', state: 'scheduled', id: first })
    await advance(100)
    await sweep(store)
    const newest = { ...debounce(100, 1_000), input: '"newest"' }
    assert.deepEqual(await add(store, newest), { status: 'replaced', state: 'scheduled', id: first })
    assert.equal((await claim(store)).length, 0)
    await advance(100)
    await sweep(store)
    const job = await claimOne(store)
    assert.deepEqual([job.id, job.input, job.attempt], [first, '"newest"', 1])
  })

  test('a repeated insert changes nothing', async ({ store, advance }) => {
    const job = newJob({ ...debounce(100, 500) })
    await store.insert([job])
    const before = await read(store, job.id)
    await advance(50)
    assert.deepEqual(await store.insert([job]), [{ status: 'duplicate', state: 'scheduled' }])
    assert.deepEqual(await read(store, job.id), before)
  })

  test('jobs of one batch make way for each other', async ({ store }) => {
    const jobs = ['1', '2', '3'].map((input) => newJob({ ...replace(), input }))
    const results = await store.insert(jobs)
    assert.deepEqual(
      results.map(({ status }) => status),
      ['inserted', 'replaced', 'replaced'],
    )
    assert.equal((await read(store, (jobs[0] as NewJob).id)).input, '3')
  })

  test('a sweep lets go of keys that nobody needs, and keeps the others', async ({ store, advance }) => {
    const live = await insertOne(store, untilDone('live'))
    await insertOne(store, { ...throttle(100), queue: 'done' })
    const [job] = await claim(store, 1, { queues: ['done'] })
    assert.ok(job)
    await settle(store, job, complete())
    await advance(3600_000)
    for (let i = 0; i < 3; i++) await sweep(store)
    assert.deepEqual(await add(store, untilDone('live')), { status: 'duplicate', state: 'pending', id: live })
    assert.equal((await add(store, throttle(100))).status, 'inserted')
  })

  test('what a handler adds is deduped as well', async ({ store }) => {
    const first = await insertOne(store, { ...untilDone(), queue: 'kept' })
    await insertOne(store)
    await settle(store, await claimOne(store), complete(), {
      inserts: [newJob({ ...untilDone(), queue: 'kept' })],
    })
    assert.equal(await stateOf(store, first), 'pending')
    assert.equal((await statesOf(store, 'kept')).pending, 1)
  })
}

async function add(store: Store, fields: Partial<NewJob>): Promise<InsertResult> {
  const [result] = await store.insert([newJob(fields)])
  return result as InsertResult
}

function rule(mode: Dedupe['mode'], key: string, window = 0, most = 0): Partial<NewJob> {
  return { dedupe: { key, mode, window, most } }
}

const untilDone = (key = 'k') => rule('until-done', key)
const throttle = (window: number) => rule('throttle', 'k', window)
const debounce = (window: number, most: number) => rule('debounce', 'k', window, most)
const replace = () => rule('replace', 'k')
