/** Calls at the same time, over one handle and, where data is shared, over several. */
import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { released } from '../../core/lifecycle.js'
import type { OrphanedJob, SettleResult, Store } from '../../core/store.js'
import { held } from './extend.js'
import type { StoreHarness } from './harness.js'
import {
  claim,
  claimOne,
  complete,
  die,
  idsOf,
  insertMany,
  insertOne,
  lease,
  newJob,
  newJobs,
  read,
  rescue,
  retryIn,
  running,
  settle,
  sorted,
  stateOf,
  statesOf,
  stop,
  succeeds,
  sweep,
  type Test,
  totalOf,
  unreadable,
} from './helpers.js'

export function races(test: Test): void {
  test('claims at the same time never share a job, and together leave none', async (harness) => {
    const { store } = harness
    const ids = await insertMany(store, 200)
    const taken = await atOnce(harness, 20, (handle, i) => claim(handle, 15, { worker: `w${i}` }))
    const claimed = taken.flat()
    assert.deepEqual(sorted(idsOf(claimed)), sorted(ids))
    assert.equal(new Set(claimed.map((job) => `${job.id} ${job.token}`)).size, ids.length)
    assert.equal((await statesOf(store)).running, 200)
    for (const [i, jobs] of taken.entries()) {
      for (const { worker } of (await store.get(idsOf(jobs))) as { worker: string | undefined }[]) {
        assert.equal(worker, `w${i}`)
      }
    }
  })

  test('workers that settle and claim at the same time run each job once', async (harness) => {
    const { store } = harness
    const ids = await insertMany(store, 150)
    const ran: string[] = []
    await atOnce(harness, 6, async (handle, i) => {
      const worker = `w${i}`
      for (
        let jobs = await claim(handle, 7, { worker });
        jobs.length > 0;
        jobs = await claim(handle, 7, { worker })
      ) {
        ran.push(...idsOf(jobs))
        const results = await Promise.all(jobs.map((job) => settle(handle, job, complete('1'), { worker })))
        assert.ok(results.every((result) => result === 'applied'))
      }
    })
    assert.deepEqual(sorted(ran), sorted(ids))
    assert.equal((await statesOf(store)).completed, 150)
    assert.equal(await totalOf(store, 'completed'), 150)
  })

  test('inserts of the same id at the same time give one job', async (harness) => {
    const { store } = harness
    const jobs = newJobs(5)
    const results = await atOnce(harness, 12, (handle, i) =>
      handle.insert(jobs.map((job) => ({ ...job, input: `${i}` }))),
    )
    for (let k = 0; k < jobs.length; k++) {
      const inserted = results.filter((result) => result[k]?.status === 'inserted')
      assert.equal(inserted.length, 1)
    }
    assert.equal((await statesOf(store)).pending, 5)
    assert.equal(await totalOf(store, 'enqueued'), 5)
    assert.equal((await claim(store, 50)).length, 5)
  })

  test('two settlements for one lease: one is applied, and it is the one that shows', async (harness) => {
    const { store } = harness
    for (let round = 0; round < 10; round++) {
      const job = await running(store)
      const outcomes = [complete('"won"'), die(), retryIn(5), released(), stop()]
      const results = await atOnce(harness, 5, (handle, i) =>
        settle(handle, job, outcomes[(i + round) % 5] ?? stop()),
      )
      assert.equal(count(results, 'applied'), 1)
      const won = outcomes[(results.indexOf('applied') + round) % 5]
      assert.equal(await stateOf(store, job.id), won?.to)
    }
  })

  test('a rescue and a late settlement: one of them counts', async (harness) => {
    const { store, advance } = harness
    for (const rescueFirst of [true, false]) {
      const { job, orphan } = await orphaned(store, advance)
      const [late, rescued] = await inOrder(
        rescueFirst,
        () => settle(store, job, complete('"late"')),
        async () => rescue((await handles(harness)).at(-1) as Store, orphan),
      )
      assert.deepEqual(sorted([late, rescued]), ['applied', 'lost'])
      assert.equal(await stateOf(store, job.id), late === 'applied' ? 'completed' : 'pending')
      assert.equal((await read(store, job.id)).crashes, late === 'applied' ? 0 : 1)
    }
  })

  test('a rescue and a revived worker: it keeps its job or learns that it lost it', async (harness) => {
    const { store, advance } = harness
    for (const rescueFirst of [true, false]) {
      const { job, orphan } = await orphaned(store, advance)
      const [{ lost }, rescued] = await inOrder(
        rescueFirst,
        () => store.extend({ worker: 'worker', lease, held: [held(job, { progress: '"revived"' })] }),
        async () => rescue((await handles(harness)).at(-1) as Store, orphan),
      )
      assert.deepEqual(lost, rescued === 'applied' ? [job.id] : [])
      assert.equal(await stateOf(store, job.id), rescued === 'applied' ? 'pending' : 'running')
      assert.equal((await read(store, job.id)).progress, rescued === 'applied' ? undefined : '"revived"')
      assert.equal(await settle(store, job, complete()), rescued === 'applied' ? 'lost' : 'applied')
    }
  })

  test('several rescuers: each orphan crashes once', async (harness) => {
    const { store, advance } = harness
    const ids = await insertMany(store, 20)
    await claim(store, 20, { worker: 'lost' })
    await advance(lease)
    const results = await atOnce(harness, 4, async (handle) => {
      const { orphans } = await sweep(handle)
      return Promise.all(orphans.map((orphan) => rescue(handle, orphan)))
    })
    assert.equal(count(results.flat(), 'applied'), 20)
    for (const record of await store.get(ids))
      assert.deepEqual([record?.state, record?.crashes], ['pending', 1])
    assert.equal(await totalOf(store, 'crashed'), 20)
    assert.equal((await claim(store, 50)).length, 20)
  })

  test('several sweeps: each due job becomes ready once', async (harness) => {
    const { store, advance } = harness
    const ids = await insertMany(store, 50, { delay: 10 })
    await advance(10)
    const reports = await atOnce(harness, 4, (handle) => sweep(handle))
    assert.equal(
      reports.reduce((sum, { promoted }) => sum + promoted, 0),
      50,
    )
    assert.deepEqual(sorted(idsOf(await claim(store, 100))), sorted(ids))
    assert.equal((await statesOf(store)).pending, 0)
  })

  test('several operators: each job is changed by one of them', async (harness) => {
    const { store } = harness
    const ids = await insertMany(store, 20)
    for (const job of await claim(store, 20)) await settle(store, job, die())
    const command = { do: 'retry', delay: 0, spacing: 0, change: {} } as const
    const reports = await atOnce(harness, 4, (handle) => handle.operate({ ids }, command))
    assert.deepEqual(sorted(reports.flatMap(({ affected }) => affected)), sorted(ids))
    assert.equal(reports.flatMap(({ refused }) => refused).length, 60)
    assert.equal((await claim(store, 100)).length, 20)
    assert.deepEqual(await store.causes(), [])
  })

  test('a cancel and a claim: the job is cancelled, or runs and is asked to stop', async (harness) => {
    const { store } = harness
    for (let round = 0; round < 10; round++) {
      const id = await insertOne(store)
      const cancel = { do: 'cancel', reason: 'race', retain: 1_000 } as const
      const [first, second] = await handles(harness)
      const [claimed, report] = await Promise.all([
        claim(first as Store, 1),
        (second ?? first)?.operate({ ids: [id] }, cancel),
      ])
      if (claimed.length === 0)
        assert.deepEqual([report?.affected, await stateOf(store, id)], [[id], 'cancelled'])
      else {
        assert.deepEqual([report?.asked, (await read(store, id)).cancelReason], [[id], 'race'])
        await settle(store, claimed[0] as ClaimedJob, stop('race'))
      }
    }
  })

  test('one bad call among many at the same time fails alone', async ({ store }) => {
    const good = newJobs(10)
    const waiting = await insertMany(store, 3, { queue: 'waiting' })
    const job = await running(store)
    const [claimed, settled] = await Promise.all([
      claim(store, 3, { queues: ['waiting'] }),
      settle(store, job, complete('1')),
      ...good.slice(0, 5).map((one) => store.insert([one])),
      succeeds(store.insert([newJob({ queue: 'bad' }), unreadable({ queue: 'bad' })])),
      ...good.slice(5).map((one) => store.insert([one])),
    ])
    assert.deepEqual(idsOf(claimed), waiting)
    assert.equal(settled, 'applied')
    assert.equal(await stateOf(store, job.id), 'completed')
    assert.equal((await statesOf(store)).pending, 10)
    assert.equal((await statesOf(store, 'waiting')).running, 3)
    assert.deepEqual(sorted(idsOf(await claim(store, 20))), sorted(idsOf(good)))
  })
}

/** What several handles on the same data must agree on. Without a second handle there is nothing to test. */
export function handlesTests(test: Test): void {
  const shared: Test = (title, body) =>
    test(title, (harness) => (harness.second ? body(harness) : Promise.resolve()))

  shared('what one handle writes the other reads', async ({ store, second }) => {
    const other = (await second?.()) as Store
    const job = newJob({ tags: ['x'] })
    assert.equal((await store.insert([job]))[0]?.status, 'inserted')
    assert.equal((await other.insert([job]))[0]?.status, 'duplicate')
    assert.deepEqual(await other.get([job.id]), await store.get([job.id]))
    const claimed = await claimOne(other)
    assert.equal(
      await settle(store, claimed, complete('1')),
      'applied',
      'a lease belongs to its worker, not to a handle',
    )
    assert.equal((await read(other, job.id)).result, '1')
    assert.deepEqual(await other.counts(), await store.counts())
  })

  shared('a pause holds for every handle at once', async ({ store, second }) => {
    const other = (await second?.()) as Store
    await insertMany(store, 2)
    assert.equal((await claim(other, 1)).length, 1)
    await store.configure({ queue: 'main', paused: true })
    assert.deepEqual(await claim(other, 1), [])
    await other.configure({ queue: 'main', paused: false })
    assert.equal((await claim(store, 1)).length, 1)
  })

  shared('a worker that was rescued, forgotten and came back can be rescued again', async (harness) => {
    const { store, advance } = harness
    const other = (await harness.second?.()) as Store
    const id = await insertOne(store, { maxCrashes: 9 })
    for (const crashes of [1, 2]) {
      await claimOne(store, 'zombie')
      await advance(lease)
      const [orphan] = (await sweep(other)).orphans
      assert.equal(orphan?.id, id, 'the other handle finds it')
      assert.equal(await rescue(other, orphan as OrphanedJob), 'applied')
      await sweep(other) // forgets the worker, which has nothing any more
      assert.equal((await read(store, id)).crashes, crashes)
    }
  })

  shared('a worker that another handle has forgotten goes on', async ({ store, second, advance }) => {
    const other = (await second?.()) as Store
    await store.extend({ worker: 'idle', lease, held: [] })
    await advance(lease)
    await sweep(other)
    await insertMany(store, 2)
    // May well get the forgotten worker's place.
    const newcomer = await claimOne(other, 'newcomer')
    const job = await claimOne(store, 'idle')
    assert.equal(await settle(store, newcomer, complete(), { worker: 'idle' }), 'lost')
    assert.deepEqual((await store.extend({ worker: 'idle', lease, held: [held(newcomer)] })).lost, [
      newcomer.id,
    ])
    assert.equal(await settle(store, job, complete(), { worker: 'idle' }), 'applied')
    assert.equal(await settle(other, newcomer, complete(), { worker: 'newcomer' }), 'applied')
  })

  shared('a forgotten worker cannot settle for the one in its place', async ({ store, second, advance }) => {
    const other = (await second?.()) as Store
    await store.extend({ worker: 'idle', lease, held: [] })
    await advance(lease)
    await sweep(other)
    await insertOne(store)
    const newcomer = await claimOne(other, 'newcomer')
    assert.equal(await settle(store, newcomer, complete(), { worker: 'idle' }), 'lost')
    assert.equal(await settle(other, newcomer, complete(), { worker: 'newcomer' }), 'applied')
  })

  shared('a claim repeated over another handle returns what it holds', async ({ store, second }) => {
    const other = (await second?.()) as Store
    await insertMany(store, 4)
    const lanes = [0, 1, 2, 3]
    const room = { shared: 2, own: lanes.map(() => 0) }
    const picks = lanes.map((lane) => ({ queue: 'main', lane, take: 2 }))
    const request = {
      worker: 'w',
      settlements: [],
      claim: { token: 'repeated', lease, room, picks, turn: 0 },
    }
    const { claimed } = await store.exchange(request)
    assert.deepEqual((await other.exchange(request)).claimed, claimed)
    assert.equal((await statesOf(store)).running, 2)
  })
}

async function handles({ store, second }: StoreHarness): Promise<Store[]> {
  return second === undefined ? [store] : [store, await second()]
}

/** `count` calls in the same turn, spread over the handles there are. */
async function atOnce<T>(
  harness: StoreHarness,
  count: number,
  call: (handle: Store, i: number) => Promise<T>,
): Promise<T[]> {
  const all = await handles(harness)
  return Promise.all(Array.from({ length: count }, (_, i) => call(all[i % all.length] as Store, i)))
}

/** Both calls in flight at once, started in the order wanted. */
async function inOrder<A, B>(
  secondFirst: boolean,
  a: () => Promise<A>,
  b: () => Promise<B>,
): Promise<[A, B]> {
  if (!secondFirst) return Promise.all([a(), b()])
  const started = b()
  return Promise.all([a(), started])
}

async function orphaned(
  store: Store,
  advance: (ms: number) => Promise<void> | void,
): Promise<{ job: ClaimedJob; orphan: OrphanedJob }> {
  const job = await running(store)
  await advance(lease)
  const orphan = (await sweep(store)).orphans.find(({ id }) => id === job.id)
  assert.ok(orphan)
  return { job, orphan }
}

function count(results: readonly SettleResult[], wanted: SettleResult): number {
  return results.filter((result) => result === wanted).length
}
