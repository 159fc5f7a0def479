import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import type { Store, SweepRequest } from '../../core/store.js'
import { held, line } from './extend.js'
import {
  claim,
  complete,
  die,
  exists,
  idsOf,
  insertMany,
  insertOne,
  lease,
  listAll,
  newJob,
  retention,
  retryIn,
  running,
  settle,
  sorted,
  stateOf,
  statesOf,
  stop,
  sweep,
  type Test,
  totalOf,
  wait,
} from './helpers.js'

export function sweepDue(test: Test): void {
  test('with nothing to do it reports nothing', async ({ store }) => {
    const nothing = {
      promoted: 0,
      pruned: 0,
      orphans: [],
      schedules: [],
      nextDue: undefined,
      nextSlot: undefined,
      more: false,
    }
    assert.deepEqual(await sweep(store), nothing)
    await insertMany(store, 3)
    await claim(store, 1)
    assert.deepEqual(await sweep(store), nothing)
  })

  test('a job becomes ready when it is due, not a millisecond before', async ({ store, advance }) => {
    const id = await insertOne(store, { delay: 100 })
    await advance(99)
    assert.equal((await sweep(store)).promoted, 0)
    assert.equal(await stateOf(store, id), 'scheduled')
    assert.deepEqual(await claim(store), [])
    await advance(1)
    assert.equal((await sweep(store)).promoted, 1)
    assert.equal(await stateOf(store, id), 'pending')
    assert.equal((await sweep(store)).promoted, 0)
    assert.deepEqual(idsOf(await claim(store)), [id])
  })

  test('jobs land in their own queue and lane', async ({ store, advance }) => {
    const wanted: string[] = []
    for (const queue of ['a', 'b']) {
      for (const lane of [0, 1, 2, 3]) wanted.push(await insertOne(store, { queue, lane, delay: 5 }))
    }
    await advance(5)
    await sweep(store)
    assert.deepEqual(sorted(idsOf(await claim(store, 10, { queues: ['a'] }))), sorted(wanted.slice(0, 4)))
    assert.deepEqual(idsOf(await claim(store, 10, { queues: ['b'] })), wanted.slice(4))
  })

  test('nextDue is the time to the next job, whatever makes it due', async ({ store, advance }) => {
    const job = await running(store)
    await insertOne(store, { delay: 500 })
    assert.equal((await sweep(store)).nextDue, 500)
    await insertOne(store, { delay: 300 })
    assert.equal((await sweep(store)).nextDue, 300)
    await settle(store, job, retryIn(120))
    assert.equal((await sweep(store)).nextDue, 120)
    await advance(20)
    assert.equal((await sweep(store)).nextDue, 100)
    await advance(100)
    assert.equal((await sweep(store)).nextDue, 180, 'the one that was due is ready now')
    const rest = await listAll(store, { state: 'scheduled' })
    await store.operate({ ids: idsOf(rest) }, { do: 'cancel', reason: 'x', retain: 1_000 })
    assert.equal((await sweep(store)).nextDue, undefined)
  })

  test('a sweep is bounded and says that there is more', async ({ store, advance }) => {
    await insertMany(store, 25, { delay: 10 })
    await advance(10)
    const first = await sweep(store, { limit: 10 })
    assert.equal(first.promoted, 10)
    assert.equal(first.more, true)
    assert.equal(first.nextDue, 0, 'overdue is due now')
    assert.equal((await statesOf(store)).pending, 10)
    const rest = await sweepAll(store, { limit: 10 })
    assert.equal(rest.promoted, 15)
    assert.equal((await statesOf(store)).pending, 25)
    assert.equal((await statesOf(store)).scheduled, 0)
  })

  test('blocked and paused jobs: the blocked stay, the paused become ready and wait', async ({
    store,
    advance,
  }) => {
    const job = await running(store)
    await settle(store, job, wait())
    const paused = await insertOne(store, { queue: 'paused', delay: 5 })
    await store.configure({ queue: 'paused', paused: true })
    await advance(10)
    assert.equal((await sweep(store)).promoted, 1)
    assert.equal(await stateOf(store, job.id), 'blocked')
    assert.equal(await stateOf(store, paused), 'pending')
  })
}

export function sweepExpired(test: Test): void {
  for (const [state, outcome, kept] of [
    ['completed', complete('1'), retention.completed],
    ['cancelled', stop(), retention.completed],
    ['dead', die(), retention.dead],
  ] as const) {
    test(`a ${state} job is kept for its time, then goes with all that belongs to it`, async ({
      store,
      advance,
    }) => {
      const job = await running(store)
      await store.extend({ worker: 'worker', lease, held: [held(job, { progress: '1', logs: [line(1)] })] })
      await settle(store, job, outcome)
      await advance(kept - 1)
      assert.equal((await sweep(store)).pruned, 0)
      assert.equal(await stateOf(store, job.id), state)
      await advance(1)
      assert.equal((await sweep(store)).pruned, 1)
      assert.equal(await exists(store, job.id), false)
      assert.equal(await store.trail(job.id), undefined)
      assert.equal((await statesOf(store, job.queue))[state], 0)
      assert.equal(await totalOf(store, 'pruned', job.queue), 1)
      assert.equal(await totalOf(store, state, job.queue), 1, 'totals do not go back')
      assert.deepEqual(await store.causes(), [])
      assert.equal((await sweep(store)).pruned, 0)
    })
  }

  test('live jobs never expire', async ({ store, advance }) => {
    const far = await insertOne(store, { delay: 10 ** 12 })
    const pending = await insertOne(store)
    const blocked = await running(store)
    await settle(store, blocked, wait())
    const alive = await running(store)
    await advance(10 ** 11)
    const report = await sweep(store, { keep: { completed: 0, dead: 0 } })
    assert.equal(report.pruned, 0)
    const states = await Promise.all([far, pending, blocked.id, alive.id].map((id) => stateOf(store, id)))
    assert.deepEqual(states, ['scheduled', 'pending', 'blocked', 'running'])
  })

  test('beyond the count, those closest to their expiry go first', async ({ store }) => {
    const done = await finished(store, 6, (i) => complete('1', { completed: 1_000 + ((i * 5) % 6), dead: 0 }))
    const dead = await finished(store, 4, (i) => die(undefined, { completed: 0, dead: 1_000 + i }))
    assert.equal((await sweep(store, { keep: { completed: 6, dead: 4 } })).pruned, 0)
    const report = await sweepAll(store, { keep: { completed: 2, dead: 3 } })
    assert.equal(report.pruned, 5)
    // expiries of done: 0, 5, 4, 3, 2, 1; of dead: 0, 1, 2, 3
    assert.deepEqual(
      sorted(idsOf(await listAll(store, { state: 'completed' }))),
      sorted([done[1], done[2]] as string[]),
    )
    assert.deepEqual(sorted(idsOf(await listAll(store, { state: 'dead' }))), sorted(dead.slice(1)))
    assert.equal((await store.causes())[0]?.count, 3)
    assert.equal(await totalOf(store, 'pruned'), 5)
  })

  test('a count of 0 keeps none', async ({ store }) => {
    await finished(store, 3, () => complete())
    await finished(store, 3, () => die())
    await sweepAll(store, { keep: { completed: 0, dead: 0 } })
    const { completed, dead } = await statesOf(store)
    assert.deepEqual([completed, dead], [0, 0])
    assert.deepEqual(await store.causes(), [])
  })

  test('beyond the count, it does not matter with what a job ended', async ({ store }) => {
    await insertMany(store, 2)
    const [first, second] = (await claim(store, 2)) as [ClaimedJob, ClaimedJob]
    await settle(store, first, complete('1', { completed: 10, dead: 0 }), {
      inserts: [newJob({ delay: 1_000 })],
    })
    await settle(store, second, complete('1', { completed: 10_000, dead: 0 }))
    await sweep(store, { limit: 1, keep: { completed: 0, dead: 0 } })
    assert.deepEqual([await exists(store, first.id), await exists(store, second.id)], [false, true])
  })

  test('age and count together remove each job once', async ({ store, advance }) => {
    await finished(store, 5, (i) => complete('1', { completed: i < 2 ? 10 : 1_000 + i, dead: 0 }))
    await advance(10)
    assert.equal((await sweepAll(store, { keep: { completed: 2, dead: 9 } })).pruned, 3)
    assert.equal((await statesOf(store)).completed, 2)
  })

  test('pruning is bounded and says that there is more', async ({ store, advance }) => {
    await finished(store, 12, (i) =>
      i % 2 === 0 ? complete() : die(undefined, { completed: 0, dead: 60_000 }),
    )
    await advance(60_000)
    const first = await sweep(store, { limit: 5 })
    assert.ok(first.pruned <= 5 && first.pruned > 0)
    assert.equal(first.more, true)
    assert.equal((await sweepAll(store, { limit: 5 })).pruned, 12 - first.pruned)
    const { completed, dead } = await statesOf(store)
    assert.deepEqual([completed, dead], [0, 0])
  })

  test('due, expired and orphaned work in one sweep', async ({ store, advance }) => {
    const kept = { completed: lease, dead: lease }
    const gone = await finished(store, 2, () => complete('1', kept), 'other')
    const due = await insertMany(store, 3, { delay: lease })
    const lost = await running(store, {}, 'lost')
    await advance(lease)
    const report = await sweep(store)
    assert.equal(report.promoted, due.length)
    assert.equal(report.pruned, gone.length)
    assert.deepEqual(idsOf(report.orphans), [lost.id])
    assert.equal(report.nextDue, undefined)
  })
}

export function sweepOrphans(test: Test): void {
  test('orphans are named after the lease, not before, with all that a rescue needs', async ({
    store,
    advance,
  }) => {
    const job = await running(store, { name: 'fragile', maxCrashes: 4 }, 'lost')
    await advance(lease - 1)
    assert.deepEqual((await sweep(store)).orphans, [])
    await advance(1)
    const { id, token } = job
    const about = { id, token, name: 'fragile', queue: job.queue, lane: job.lane, worker: 'lost' }
    const expected = { ...about, attempt: 1, crashes: 0, maxCrashes: 4, cancelReason: undefined }
    assert.deepEqual((await sweep(store)).orphans, [expected])
    assert.deepEqual((await sweep(store)).orphans, [expected], 'until somebody rescues them')
    assert.equal(await stateOf(store, id), 'running')
  })

  test('an orphan that was asked to stop says so', async ({ store, advance }) => {
    const job = await running(store)
    await store.operate({ ids: [job.id] }, { do: 'cancel', reason: 'changed my mind', retain: 1_000 })
    await advance(lease)
    assert.equal((await sweep(store)).orphans[0]?.cancelReason, 'changed my mind')
  })

  test('naming orphans is bounded; rescued ones make room for the next', async ({ store, advance }) => {
    const ids = new Set(await insertMany(store, 25))
    await claim(store, 10, { worker: 'a' })
    await claim(store, 10, { worker: 'b' })
    await claim(store, 5, { worker: 'c' })
    await advance(lease)
    const rescued = new Set<string>()
    for (let i = 0; i < 10 && rescued.size < ids.size; i++) {
      const { orphans, more } = await sweep(store, { limit: 7 })
      assert.ok(orphans.length <= 7)
      assert.ok(more || rescued.size + orphans.length === ids.size)
      for (const orphan of orphans) {
        const keep = complete()
        assert.equal(await settle(store, orphan, keep, { worker: orphan.worker, rescue: true }), 'applied')
        assert.ok(!rescued.has(orphan.id))
        rescued.add(orphan.id)
      }
    }
    assert.deepEqual(sorted([...rescued]), sorted([...ids]))
    assert.deepEqual((await sweep(store)).orphans, [])
  })

  test('workers without jobs hide no orphan, however many came and went', async ({ store, advance }) => {
    for (let i = 0; i < 30; i++) await store.extend({ worker: `idle-${i}`, lease, held: [] })
    const job = await running(store, {}, 'busy')
    await advance(lease)
    const named = new Set<string>()
    for (let more = true, i = 0; more && i < 100; i++) {
      const report = await sweep(store, { limit: 1 })
      for (const { id } of report.orphans) named.add(id)
      more = report.more && named.size === 0
    }
    assert.deepEqual([...named], [job.id], 'named before a sweep says that there is no more')
  })

  test('a worker that is forgotten comes back as if new, and cannot pass for another', async ({
    store,
    advance,
  }) => {
    await store.extend({ worker: 'idle', lease, held: [] })
    await advance(lease)
    await sweep(store)
    // May well get the forgotten worker's place.
    const other = await running(store, {}, 'newcomer')
    assert.equal(await settle(store, other, complete(), { worker: 'idle' }), 'lost')
    assert.deepEqual((await store.extend({ worker: 'idle', lease, held: [held(other)] })).lost, [other.id])
    const again = await running(store, {}, 'idle')
    assert.equal(await settle(store, again, complete(), { worker: 'newcomer' }), 'lost')
    assert.equal(await settle(store, again, complete(), { worker: 'idle' }), 'applied')
    assert.equal(await settle(store, other, complete(), { worker: 'newcomer' }), 'applied')
  })
}

/** Sweeps until there is no more, and adds up. */
async function sweepAll(
  store: Store,
  request: Partial<SweepRequest>,
): Promise<{ promoted: number; pruned: number }> {
  const sum = { promoted: 0, pruned: 0 }
  const limit = request.limit ?? 1000
  for (let i = 0; i < 1000; i++) {
    const { promoted, pruned, more } = await sweep(store, request)
    assert.ok(promoted <= limit && pruned <= limit, 'no more than the limit')
    sum.promoted += promoted
    sum.pruned += pruned
    if (!more) return sum
  }
  throw new Error('sweeps always find more')
}

async function finished(
  store: Store,
  count: number,
  outcome: (i: number) => ReturnType<typeof complete>,
  queue = 'main',
): Promise<string[]> {
  const ids = await insertMany(store, count, { queue })
  const claimed = await claim(store, count, { queues: [queue] })
  for (const [i, job] of claimed.entries()) {
    assert.equal(await settle(store, job as ClaimedJob, outcome(i)), 'applied')
  }
  return ids
}
