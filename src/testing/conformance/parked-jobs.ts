/** Jobs that wait behind a closed limit, for readers, operators and those behind them. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import type { JobTraffic } from '../../core/traffic/settings.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  idsOf,
  insertMany,
  insertOne,
  listAll,
  newJob,
  operateAll,
  read,
  replay,
  retryIn,
  settle,
  sorted,
  statesOf,
  succeeds,
  sweep,
  type Test,
  unreadable,
} from './helpers.js'
import {
  ask,
  choose,
  completeNext,
  drain,
  gated,
  gateOf,
  groupGate,
  inGroup,
  jobGate,
  keyGate,
  rate,
  startAndComplete,
  withBoth,
  withKey,
} from './traffic-helpers.js'

export function parkedJobs(test: Test): void {
  test('a job is pending for every reader, once, wherever it waits', async ({ store }) => {
    const ids = await everywhere(store)
    for (const limit of [1, 3, 7, 1_000]) {
      const listed = idsOf(await listAll(store, { state: 'pending' }, limit))
      assert.deepEqual(sorted(listed), sorted(ids), `pages of ${limit}`)
    }
    assert.equal((await statesOf(store)).pending + (await statesOf(store, 'other')).pending, ids.length)
    for (const record of await store.get(ids)) assert.equal(record?.state, 'pending')
  })

  test('readers see group and key, pending and later', async ({ store }) => {
    const id = await insertOne(store, { traffic: withBoth('g', 'k') })
    const seen = async () => {
      const { group, key } = await read(store, id)
      return [group, key]
    }
    assert.deepEqual(await seen(), ['g', 'k'])
    const job = await claimOne(store)
    assert.deepEqual([job.group, job.key], ['g', 'k'])
    assert.deepEqual(await seen(), ['g', 'k'])
    await settle(store, job, retryIn(5))
    assert.deepEqual(await seen(), ['g', 'k'])
  })

  test('a job that was scheduled, retried or replayed elsewhere keeps its group and key', async ({
    store,
    advance,
  }) => {
    const traffic = withBoth('g', 'k')
    const id = await insertOne(store, { traffic, delay: 5, queue: 'fresh' })
    const check = async (queue: string) => {
      const [job] = await claim(store, 1, { queues: [queue] })
      assert.deepEqual([job?.id, job?.group, job?.key], [id, 'g', 'k'])
      return job as ClaimedJob
    }
    await advance(5)
    await sweep(store)
    await settle(store, await check('fresh'), retryIn(5))
    await advance(5)
    await sweep(store)
    await settle(store, await check('fresh'), complete())
    await replay(store, id, { queue: 'fresher' })
    await settle(store, await check('fresher'), complete())
    await replay(store, id, { queue: 'freshest' }, 5)
    await store.operate({ ids: [id] }, { do: 'promote' })
    await check('freshest')
  })

  test('scheduled jobs of a key obey its limit once they are due', async ({ store, advance }) => {
    await insertMany(store, 5, { traffic: withKey('k'), delay: 5, queue: 'fresh' })
    await choose(store, keyGate('k'), { limit: { concurrency: 2 } })
    await advance(5)
    await sweep(store)
    assert.equal((await claim(store, 9, { queues: ['fresh'] })).length, 2)
  })

  test('a filter finds jobs that wait for a limit, and commands reach them', async (harness) => {
    const { store } = harness
    const ids = await everywhere(store)
    const others = idsOf(await listAll(store, { state: 'pending', queue: 'other' }))
    const report = await operateAll(store, { state: 'pending', queue: 'main' }, { do: 'remove' }, 4)
    assert.deepEqual(sorted([...report.affected, ...others]), sorted(ids))
    assert.deepEqual(report.refused, [])
    assert.equal((await statesOf(store)).pending, 0)
    await openAll(store)
    assert.deepEqual(sorted(await drain(harness, ['main', 'other'])), sorted(others))
  })

  test('cancelled and replayed jobs wait for their limits again', async ({ store }) => {
    await choose(store, keyGate('k'), { limit: { concurrency: 1 } })
    const ids = await insertMany(store, 4, { traffic: withKey('k') })
    const running = await claimOne(store)
    assert.deepEqual(await claim(store, 9), [])
    const waiting = ids.filter((id) => id !== running.id)
    await store.operate({ ids: waiting }, { do: 'cancel', reason: 'no', retain: 1_000 })
    await store.operate({ ids: waiting }, { do: 'retry', delay: 0, spacing: 0, change: {} })
    assert.deepEqual(await claim(store, 9), [])
    await settle(store, running, complete())
    const seen: string[] = []
    for (let i = 0; i < 4; i++) {
      const ids = await completeNext(store, 9)
      assert.ok(ids.length <= 1)
      seen.push(...ids)
    }
    assert.deepEqual(sorted(seen), sorted(waiting))
  })

  test('a job that leaves its line for that of its definition makes room for the next of its group', async ({
    store,
  }) => {
    const both: JobTraffic = { gated: false, group: 'g', key: 'k' }
    await choose(store, groupGate('g'), { limit: { concurrency: 2 }, paused: true })
    const [first] = await insertMany(store, 2, { traffic: both })
    const free = await insertOne(store, { traffic: inGroup('g') })
    assert.deepEqual(await claim(store, 9), [], 'all are parked behind the group')
    await choose(store, groupGate('g'), { paused: null })
    assert.deepEqual(idsOf(await claim(store, 1)), [first], 'the second stands in line now')
    await choose(store, keyGate('k'), { paused: true })
    await choose(store, jobGate(), { limit: { concurrency: 100 } })
    const { claimed, opens } = await ask(store, 9)
    const jobs = opens === 0 ? [...claimed, ...(await claim(store, 9))] : claimed
    assert.deepEqual(idsOf(jobs), [free])
  })

  test('a job that comes when the gate is open again does not overtake those behind it', async ({
    store,
    advance,
  }) => {
    await choose(store, keyGate('slow'), { limit: { rate: rate(1, 50) } })
    await choose(store, groupGate('narrow'), { limit: { concurrency: 1 } })
    for (const traffic of [withKey('slow'), inGroup('narrow')]) {
      const [first, second, third] = await insertMany(store, 3, { traffic })
      const running = await claimOne(store)
      assert.equal(running.id, first)
      assert.deepEqual(await claim(store, 9), [])
      await settle(store, running, complete())
      await advance(50)
      const late = await insertOne(store, { traffic })
      const seen: string[] = []
      for (let i = 0; i < 3; i++) {
        seen.push(...(await completeNext(store, 9)))
        await advance(50)
      }
      assert.deepEqual(seen, [second, third, late])
    }
  })

  test('a call that fails half-way leaves limits as they were', async ({ store }) => {
    await choose(store, jobGate(), { each: { concurrency: 1 } })
    const [first, second] = await insertMany(store, 2, { traffic: withBoth('g', 'k') })
    const job = await claimOne(store)
    assert.equal(job.id, first)
    const jobs = [newJob({ traffic: withBoth('g', 'k') }), unreadable({ traffic: withBoth('g', 'k') })]
    if (!(await succeeds(store.insert(jobs)))) {
      assert.equal((await gateOf(store, keyGate('k')))?.pending, 1)
      assert.equal((await gateOf(store, groupGate('g')))?.pending, 1)
      const settlements = [{ id: job.id, token: job.token, outcome: complete(), inserts: jobs }]
      const exchange = store.exchange({ worker: 'worker', settlements, claim: claimRequest(5) })
      assert.equal(await succeeds(exchange), false)
      assert.deepEqual(await claim(store, 5), [], 'it still runs')
    }
    await settle(store, job, complete())
    assert.equal((await claim(store, 5))[0]?.id, second)
    assert.deepEqual(await claim(store, 5), [])
  })

  test('removing all that waits behind a closed gate leaves it as if they had never been', async ({
    store,
  }) => {
    await choose(store, jobGate(), { each: { rate: rate(1, 100) } })
    const ids = await insertMany(store, 50, { traffic: withBoth('g', 'k') })
    assert.equal(await startAndComplete(store, 9), 1)
    assert.equal((await gateOf(store, keyGate('k')))?.pending, 49)
    await store.operate({ ids }, { do: 'remove' })
    assert.equal((await gateOf(store, groupGate('g')))?.pending ?? 0, 0)
    assert.equal((await gateOf(store, keyGate('k')))?.pending ?? 0, 0)
    assert.deepEqual((await ask(store, 9)).opens, undefined)
    const next = await insertOne(store, { traffic: withBoth('g', 'other') })
    assert.deepEqual(idsOf(await claim(store, 9)), [next])
  })

  test('a claim repeated with its token returns groups, keys and all', async ({ store }) => {
    await choose(store, jobGate(), { each: { concurrency: 2 } })
    await insertMany(store, 5, { traffic: withBoth('g', 'k') })
    const request = { worker: 'worker', settlements: [], claim: claimRequest(5) }
    const { claimed } = await store.exchange(request)
    assert.equal(claimed.length, 2)
    assert.deepEqual((await store.exchange(request)).claimed, claimed)
    assert.deepEqual(await claim(store, 5), [])
  })
}

/** Jobs in plain lines, in lines of their own and behind closed gates, over two queues and all lanes. */
async function everywhere(store: Store): Promise<string[]> {
  await choose(store, jobGate(), { limit: { concurrency: 1 } })
  await choose(store, groupGate('off'), { paused: true })
  await choose(store, keyGate('off'), { paused: true })
  const flows: (JobTraffic | undefined)[] = [
    undefined,
    gated,
    inGroup('off'),
    inGroup('on'),
    withKey('off'),
    withKey('on'),
  ]
  const ids: string[] = []
  for (const queue of ['main', 'other'])
    for (const lane of [0, 2, 3])
      for (const name of ['greet', 'free'])
        for (const traffic of flows) ids.push(await insertOne(store, { queue, lane, name, traffic }))
  return ids
}

async function openAll(store: Store): Promise<void> {
  await choose(store, groupGate('off'), { paused: null })
  await choose(store, keyGate('off'), { paused: null })
  await choose(store, jobGate(), { limit: null })
}
