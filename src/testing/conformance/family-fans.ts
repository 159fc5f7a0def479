/** Children that the steps of a job add: waited for fan by fan, by its run only. */
import assert from 'node:assert/strict'
import type { ClaimedJob, FinalState } from '../../core/job.js'
import { type Outcome, waiting } from '../../core/lifecycle.js'
import type { Store } from '../../core/store.js'
import {
  cancelCommand,
  childOf,
  countsOf,
  endNext,
  linksOf,
  ofChild,
  parent,
  retryCommand,
} from './family-jobs.js'
import {
  claim,
  complete,
  die,
  fresh,
  insertOne,
  lease,
  read,
  settle,
  stateOf,
  sweep,
  type Test,
} from './helpers.js'

export function familyFanTests(test: Test): void {
  test('a job goes on when one of the fans that it waits for is over, whatever of others still runs', async ({
    store,
  }) => {
    const job = await running(store)
    const [fast, other] = await add(store, job, 'fast', 2)
    const [slow] = await add(store, job, 'slow')
    await settle(store, job, until('fast', 'slow'))
    assert.deepEqual(await countsOf(store, job.id), { children: 3, waiting: 3, failed: 0 })
    await settle(store, await claimed(store, fast), complete())
    assert.equal(await stateOf(store, job.id), 'blocked')
    await settle(store, await claimed(store, other), die())
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.equal(await stateOf(store, slow ?? ''), 'pending')
    assert.deepEqual(await countsOf(store, job.id), { children: 3, waiting: 1, failed: 0 })
  })

  test('one that is over already holds nobody up, nor does one that never was', async ({ store }) => {
    for (const fan of ['a', 'none']) {
      const job = await running(store)
      const [child] = await add(store, job, 'a')
      await add(store, job, 'b')
      await settle(store, await claimed(store, child), complete())
      await settle(store, job, until(fan, 'b'))
      assert.equal(await stateOf(store, job.id), 'pending')
    }
  })

  test('a job that is replayed runs, and does not wait for them before', async ({ store }) => {
    const job = await running(store)
    await add(store, job, 'a')
    await settle(store, job, die())
    await store.operate({ ids: [job.id] }, retryCommand)
    assert.equal(await stateOf(store, job.id), 'pending')
  })

  test('a child of its flow that is replayed keeps it from running, a fan that is over does not end that', async ({
    store,
  }) => {
    const top = parent()
    const given = childOf([top], {}, { onFailure: 'continue' })
    await store.insert([top, given])
    await endNext(store, die())
    const job = await claimed(store, top.id)
    const [child] = await add(store, job, 'a')
    await settle(store, job, until('a'))
    await store.operate({ ids: [given.id] }, retryCommand)
    await settle(store, await claimed(store, child), complete())
    assert.equal(await stateOf(store, top.id), 'blocked')
    await settle(store, await claimed(store, given.id), complete())
    assert.equal(await stateOf(store, top.id), 'pending')
  })

  test('a cancel goes down to them', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, job, until('a'))
    await store.operate({ ids: [job.id] }, cancelCommand)
    await sweep(store)
    assert.equal(await stateOf(store, child ?? ''), 'cancelled')
  })

  test('one that completed stays so for its parent when it is replayed', async ({ store }) => {
    const job = await running(store)
    const [child, other] = await add(store, job, 'a', 2)
    await settle(store, await claimed(store, child), complete('"first"'))
    await store.operate({ ids: [child as string] }, retryCommand)
    await settle(store, await claimed(store, child), die())
    assert.deepEqual(await endsOf(store, job.id), ['completed', undefined])
    assert.equal((await linksOf(store, { parents: [job.id] }))[0]?.result, '"first"')
    assert.deepEqual(await countsOf(store, job.id), { children: 2, waiting: 1, failed: 0 })
    assert.ok(other)
  })

  test('one that failed is waited for again when it is replayed, in the run', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    await settle(store, job, until('a'))
    await store.operate({ ids: [child as string] }, retryCommand)
    assert.equal(await stateOf(store, job.id), 'pending')
    await settle(store, await claimed(store, job.id), until('a'))
    assert.equal(await stateOf(store, job.id), 'blocked')
    await settle(store, await claimed(store, child), complete())
    assert.equal(await stateOf(store, job.id), 'pending')
  })

  test('once a fan is closed, a replay changes nothing of it', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    assert.deepEqual(await close(store, job, 'a'), [])
    assert.deepEqual(await close(store, job, 'a'), [])
    await store.operate({ ids: [child as string] }, retryCommand)
    await settle(store, await claimed(store, child), complete())
    assert.deepEqual(await endsOf(store, job.id), ['dead'])
    assert.deepEqual(await countsOf(store, job.id), { children: 1, waiting: 0, failed: 0 })
  })

  test('one with a child that was replayed and has not ended is not closed', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    const [other] = await add(store, job, 'b')
    for (const id of [child, other]) await settle(store, await claimed(store, id), die())
    await store.operate({ ids: [child as string] }, retryCommand)
    assert.deepEqual(await close(store, job, 'a', 'b'), ['a'])
    await settle(store, await claimed(store, child), complete())
    await store.operate({ ids: [other as string] }, retryCommand)
    assert.deepEqual(await endsOf(store, job.id), ['completed', 'dead'])
  })

  test('it is closed under the lease only', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    const held = {
      id: job.id,
      token: 'wrong',
      progress: undefined,
      logs: undefined,
      closes: [{ fan: 'a', replays: 0 }],
    }
    const { lost } = await store.extend({ worker: 'worker', lease, held: [held] })
    assert.deepEqual(lost, [job.id])
    await store.operate({ ids: [child as string] }, retryCommand)
    assert.deepEqual(await endsOf(store, job.id), [undefined])
  })

  test('nor is one whose child was replayed and has ended again since it was read', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    await store.operate({ ids: [child as string] }, retryCommand)
    await settle(store, await claimed(store, child), complete())
    assert.deepEqual(await closeAsOf(store, job, 0, 'a'), ['a'])
    assert.deepEqual(await closeAsOf(store, job, 1, 'a'), [])
    assert.deepEqual(await closeAsOf(store, job, 0, 'a'), [], 'what is closed stays so')
  })

  test('who died of it waits for it again when it is replayed', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    await settle(store, job, die({ ...ofChild, child: child as string }))
    assert.equal(await stateOf(store, job.id), 'dead')
    await store.operate({ ids: [child as string] }, retryCommand)
    assert.equal(await stateOf(store, job.id), 'blocked')
    await settle(store, await claimed(store, child), complete())
    assert.equal(await stateOf(store, job.id), 'pending')
  })

  test('who had gone on from it before stays dead', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    await close(store, job, 'a')
    await settle(store, job, die({ ...ofChild, child: child as string }))
    await store.operate({ ids: [child as string] }, retryCommand)
    assert.equal(await stateOf(store, job.id), 'dead')
    assert.deepEqual(await endsOf(store, job.id), ['dead'])
  })

  test('who dies of one that has completed meanwhile goes on', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    await store.operate({ ids: [child as string] }, retryCommand)
    await settle(store, await claimed(store, child), complete())
    assert.equal(await settle(store, job, die({ ...ofChild, child: child as string })), 'waiting')
    assert.equal(await stateOf(store, job.id), 'pending')
  })

  test('a cancel that was asked for is heeded by who would wait instead', async ({ store }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await settle(store, await claimed(store, child), die())
    await store.operate({ ids: [child as string] }, retryCommand)
    assert.deepEqual((await store.operate({ ids: [job.id] }, cancelCommand)).asked, [job.id])
    assert.equal(await settle(store, job, die({ ...ofChild, child: child as string })), 'cancelled')
    assert.equal(await stateOf(store, job.id), 'cancelled')
  })

  test('who dies of one that is replayed meanwhile waits instead, and not for those of other steps', async ({
    store,
  }) => {
    const job = await running(store)
    const [child] = await add(store, job, 'a')
    await add(store, job, 'b')
    await settle(store, await claimed(store, child), die())
    await store.operate({ ids: [child as string] }, retryCommand)
    await settle(store, job, die({ ...ofChild, child: child as string }))
    assert.equal(await stateOf(store, job.id), 'blocked')
    await settle(store, await claimed(store, child), die())
    assert.equal(await stateOf(store, job.id), 'pending')
    await settle(store, await claimed(store, job.id), die({ ...ofChild, child: child as string }))
    assert.equal(await stateOf(store, job.id), 'dead')
  })
}

function until(...fans: string[]): Outcome {
  return waiting({ until: undefined, signals: [], children: false, fans })
}

async function running(store: Store): Promise<ClaimedJob> {
  return claimed(store, await insertOne(store))
}

async function add(store: Store, job: ClaimedJob, fan: string, count = 1): Promise<string[]> {
  const ids = Array.from({ length: count }, () => fresh(fan))
  const inserts = ids.map((id) => childOf([job.id], { id, queue: id }, { onFailure: 'continue', fan }))
  const held = { id: job.id, token: job.token, progress: undefined, logs: undefined, inserts }
  assert.deepEqual((await store.extend({ worker: 'worker', lease, held: [held] })).lost, [])
  return ids
}

/** As one who has just read how they ended. */
async function close(store: Store, job: ClaimedJob, ...fans: string[]): Promise<readonly string[]> {
  const replays = (await read(store, job.id)).family?.replays ?? 0
  return closeAsOf(store, job, replays, ...fans)
}

async function closeAsOf(store: Store, job: ClaimedJob, replays: number, ...fans: string[]) {
  const closes = fans.map((fan) => ({ fan, replays }))
  const held = { id: job.id, token: job.token, progress: undefined, logs: undefined, closes }
  const { lost, open } = await store.extend({ worker: 'worker', lease, held: [held] })
  assert.deepEqual(lost, [])
  return open
}

async function endsOf(store: Store, id: string): Promise<(FinalState | undefined)[]> {
  return (await linksOf(store, { parents: [id] })).map(({ end }) => end)
}

async function claimed(store: Store, id = ''): Promise<ClaimedJob> {
  const { queue } = await read(store, id)
  const job = (await claim(store, 10, { queues: [queue] })).find((one) => one.id === id)
  assert.ok(job, `${id} is ready`)
  return job
}
