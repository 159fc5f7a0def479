import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { type Outcome, released, snoozed } from '../../core/lifecycle.js'
import { held, line } from './extend.js'
import {
  claim,
  claimOne,
  claimRequest,
  complete,
  die,
  exists,
  failureOf,
  idsOf,
  insertMany,
  insertOne,
  lease,
  newJob,
  plain,
  read,
  retention,
  retryIn,
  running,
  settle,
  stateOf,
  statesOf,
  stop,
  succeeds,
  sweep,
  type Test,
  timeOf,
  totalOf,
  unreadable,
  wait,
} from './helpers.js'
import { nastyTexts } from './texts.js'

export function settleTests(test: Test): void {
  test('completed: result, times and retention', async ({ store, advance }) => {
    const job = await running(store)
    await advance(20)
    const now = await timeOf(store)
    assert.equal(await settle(store, job, complete('{"ok":true}')), 'applied')
    const record = await read(store, job.id)
    assert.equal(record.state, 'completed')
    assert.equal(record.result, '{"ok":true}')
    assert.equal(record.attempt, 1)
    assert.equal(record.startedAt, job.startedAt)
    assert.equal(record.finishedAt, now)
    assert.equal(record.expiresAt, now + retention.completed)
    assert.equal(record.failure, undefined)
    assert.equal(await totalOf(store, 'completed', job.queue), 1)
  })

  test('completed without a result', async ({ store }) => {
    const job = await running(store)
    await settle(store, job, complete())
    const record = await read(store, job.id)
    assert.equal(record.state, 'completed')
    assert.equal(record.result, undefined)
  })

  test('results of every text, and of 1 MiB, are kept', async ({ store }) => {
    for (const result of [...nastyTexts, JSON.stringify('x'.repeat(1024 * 1024 - 2))]) {
      const job = await running(store)
      await settle(store, job, complete(result))
      assert.equal((await read(store, job.id)).result, result)
    }
  })

  test('many completions of one claim each get their own result and retention', async ({ store }) => {
    const now = await timeOf(store)
    const ids = await insertMany(store, 40)
    const claimed = await claim(store, 40)
    const settlements = claimed.map(({ id, token }, i) => {
      const keep = { completed: i < 30 ? 1_000 : 2_000, dead: 0 }
      const outcome = complete(i < 10 ? undefined : `${i}`, keep)
      return { id, token, outcome, inserts: undefined }
    })
    const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.ok(settled.every((result) => result === 'applied'))
    const records = await store.get(ids)
    for (const [i, record] of records.entries()) {
      assert.equal(record?.state, 'completed')
      assert.equal(record.attempt, 1)
      assert.equal(record.result, i < 10 ? undefined : `${i}`)
      assert.equal(record.expiresAt, now + (i < 30 ? 1_000 : 2_000))
    }
    assert.equal((await statesOf(store)).completed, 40)
    assert.equal((await statesOf(store)).running, 0)
    assert.equal(await totalOf(store, 'completed'), 40)
  })

  test('many completions without a result, of two claims, in one call', async ({ store, advance }) => {
    const ids = await insertMany(store, 8)
    const first = await claim(store, 4)
    await advance(5)
    const claimed = [...first, ...(await claim(store, 4))]
    await advance(5)
    const settlements = claimed.map(({ id, token }) => ({
      id,
      token,
      outcome: complete(),
      inserts: undefined,
    }))
    const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.ok(settled.every((result) => result === 'applied'))
    for (const [i, record] of (await store.get(ids)).entries()) {
      assert.deepEqual([record?.state, record?.attempt, record?.result], ['completed', 1, undefined])
      assert.equal(record?.startedAt, claimed[i]?.startedAt)
      assert.equal(record?.finishedAt, (claimed[0]?.startedAt ?? 0) + 10)
    }
    assert.deepEqual((await sweep(store)).orphans, [])
    assert.equal((await statesOf(store)).completed, 8)
  })

  test('many completions in one call each bring the jobs that their handlers added', async ({ store }) => {
    await insertMany(store, 4)
    const claimed = await claim(store, 4)
    const children = claimed.map(() => newJob({ queue: 'children' }))
    const settlements = claimed.map(({ id, token }, i) => ({
      id,
      token,
      outcome: complete(),
      inserts: children.slice(i, i + 1),
    }))
    await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.deepEqual(idsOf(await claim(store, 9, { queues: ['children'] })), idsOf(children))
  })

  for (const gone of [0, 4, 9]) {
    test(`among ten completions the lost one, at ${gone}, loses only itself`, async ({ store }) => {
      const ids = await insertMany(store, 10)
      const claimed = await claim(store, 10)
      const lost = claimed[gone] as ClaimedJob
      await settle(store, lost, released())
      const settlements = claimed.map(({ id, token }) => ({
        id,
        token,
        outcome: complete('1'),
        inserts: undefined,
      }))
      const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
      assert.deepEqual(
        settled,
        ids.map((_, i) => (i === gone ? 'lost' : 'applied')),
      )
      assert.equal(await stateOf(store, lost.id), 'pending')
      const { completed, pending, running } = await statesOf(store)
      assert.deepEqual({ completed, pending, running }, { completed: 9, pending: 1, running: 0 })
    })
  }

  test('retain 0 leaves nothing but the totals', async ({ store }) => {
    const nothing = { completed: 0, dead: 0 }
    const outcomes = [complete('1', nothing), stop('x', nothing), die(failureOf('greet', 'gone'), nothing)]
    const ids = await insertMany(store, 3)
    const claimed = await claim(store, 3)
    await store.extend({
      worker: 'worker',
      lease,
      held: claimed.map(({ id, token }) => ({
        id,
        token,
        progress: '1',
        logs: [{ at: 1, level: 'info', text: 'here' }],
      })),
    })
    for (const [i, job] of claimed.entries()) await settle(store, job, outcomes[i] as Outcome)
    assert.deepEqual(await store.get(ids), [undefined, undefined, undefined])
    for (const id of ids) assert.equal(await store.trail(id), undefined)
    const states = await statesOf(store)
    assert.ok(Object.values(states).every((count) => count === 0))
    for (const total of ['completed', 'cancelled', 'dead', 'failed'] as const) {
      assert.equal(await totalOf(store, total), 1, total)
    }
    assert.deepEqual(await store.causes(), [])
    assert.equal((await sweep(store)).pruned, 0)
    await store.insert(ids.map((id) => newJob({ id })))
    assert.deepEqual(
      await store.trail(ids[0] as string),
      { attempts: [], logs: [], steps: [] },
      'a new job has no old logs',
    )
  })

  test('a failed attempt is retried when its delay is over, not before', async ({ store, advance }) => {
    const id = await insertOne(store)
    const now = await timeOf(store)
    const failure = failureOf('greet', 'connection refused')
    assert.equal(await settle(store, await claimOne(store), retryIn(250, failure)), 'applied')
    const record = await read(store, id)
    assert.equal(record.state, 'retrying')
    assert.equal(record.dueAt, now + 250)
    assert.equal(record.attempt, 1)
    assert.equal(record.finishedAt, undefined)
    assert.equal(record.expiresAt, undefined)
    assert.equal(plain(record.failure), plain(failure))
    await advance(249)
    await sweep(store)
    assert.deepEqual(await claim(store), [])
    await advance(1)
    await sweep(store)
    assert.equal(await stateOf(store, id), 'pending')
    assert.equal((await read(store, id)).dueAt, undefined)
    const job = await claimOne(store)
    assert.equal(job.attempt, 2)
    assert.equal(job.retryDelay, 250)
    assert.equal(plain((await read(store, id)).failure), plain(failure), 'a live job shows its last failure')
  })

  test('the retry delay is that of the attempt, not of an earlier one', async ({ store, advance }) => {
    await insertOne(store)
    const seen: number[] = []
    for (const outcome of [retryIn(100), retryIn(40), released(), retryIn(0), snoozed(7), complete()]) {
      const job = await claimOneAnd(store, outcome)
      seen.push(job.retryDelay)
      await advance(outcome.delay)
      await sweep(store)
    }
    assert.deepEqual([...seen.slice(0, 3), seen[4]], [0, 100, 40, 0])
  })

  test('dead: the failure is kept whole', async ({ store, advance }) => {
    const failure = {
      name: 'TypeError',
      message: `${'m'.repeat(8_000)} "quoted" 'and' \\ 😀`,
      stack: `TypeError\n    at here (file.ts:1:2)\n${'s'.repeat(8_000)}`,
      code: 'E_CODE',
      cause: 'abcdef0123456789',
    }
    const job = await running(store)
    await advance(5)
    const now = await timeOf(store)
    assert.equal(await settle(store, job, die(failure)), 'applied')
    const record = await read(store, job.id)
    assert.equal(record.state, 'dead')
    assert.deepEqual(record.failure, failure)
    assert.equal(record.attempt, 1)
    assert.equal(record.startedAt, job.startedAt)
    assert.equal(record.finishedAt, now)
    assert.equal(record.expiresAt, now + retention.dead)
    assert.equal(record.dueAt, undefined)
  })

  test('cancelled by its handler, with the reason', async ({ store }) => {
    const job = await running(store)
    assert.equal(await settle(store, job, stop('the order is gone')), 'applied')
    const record = await read(store, job.id)
    assert.equal(record.state, 'cancelled')
    assert.equal(record.cancelReason, 'the order is gone')
    assert.equal(record.attempt, 1)
    assert.ok(record.finishedAt !== undefined && record.expiresAt === record.finishedAt + retention.completed)
  })

  test('a released job gives its attempt back and is next in line', async ({ store }) => {
    const [first, second, third] = await insertMany(store, 3)
    const [a, b] = await claim(store, 2)
    assert.equal(await settle(store, b as ClaimedJob, released()), 'applied')
    assert.equal(await settle(store, a as ClaimedJob, released()), 'applied')
    const record = await read(store, first as string)
    assert.equal(record.state, 'pending')
    assert.equal(record.attempt, 0)
    assert.equal(record.worker, undefined)
    const again = await claim(store, 3)
    assert.deepEqual(idsOf(again.slice(0, 2)).sort(), [first, second].sort(), 'before the job that never ran')
    assert.equal(again[2]?.id, third)
    assert.deepEqual(
      again.map((job) => job.attempt),
      [1, 1, 1],
    )
  })

  test('a snoozed job gives its attempt back and sleeps', async ({ store, advance }) => {
    const id = await insertOne(store)
    const now = await timeOf(store)
    for (let i = 1; i <= 5; i++) {
      const job = await claimOne(store)
      assert.equal(job.attempt, 1)
      assert.equal(job.retryDelay, 0)
      assert.equal(await settle(store, job, snoozed(100)), 'applied')
      const record = await read(store, id)
      assert.equal(record.state, 'scheduled')
      assert.equal(record.attempt, 0)
      assert.equal(record.dueAt, now + i * 100)
      await advance(99)
      await sweep(store)
      assert.deepEqual(await claim(store), [])
      await advance(1)
      await sweep(store)
    }
    assert.equal(await totalOf(store, 'retried'), 0)
  })

  test('a release after failures gives back one attempt, not all', async ({ store, advance }) => {
    const id = await insertOne(store)
    await settle(store, await claimOne(store), retryIn(10))
    await advance(10)
    await sweep(store)
    assert.equal((await claimOneAnd(store, released())).attempt, 2)
    assert.equal((await read(store, id)).attempt, 1)
    assert.equal((await claimOneAnd(store, snoozed(0))).attempt, 2)
    await sweep(store)
    assert.equal((await claimOne(store)).attempt, 2)
  })

  test('a job that waits is blocked until something unblocks or cancels it', async ({ store, advance }) => {
    const job = await running(store)
    assert.equal(await settle(store, job, wait()), 'applied')
    assert.equal(await stateOf(store, job.id), 'blocked')
    await advance(10 ** 9)
    await sweep(store)
    assert.equal(await stateOf(store, job.id), 'blocked')
    assert.deepEqual(await claim(store, 5, { queues: [job.queue] }), [])
  })

  test('a job that comes back after a cancel was asked for is cancelled, and the answer says so', async ({
    store,
  }) => {
    for (const outcome of [retryIn(5), released(), snoozed(1), { ...wait(), retain: 1_000 }]) {
      const job = await running(store)
      await store.operate({ ids: [job.id] }, { do: 'cancel', reason: 'asked', retain: 1_000 })
      assert.equal(await settle(store, job, outcome), 'cancelled', outcome.to)
      const { state, cancelReason } = await read(store, job.id)
      assert.deepEqual([state, cancelReason], ['cancelled', 'asked'], outcome.to)
    }
  })

  test('a cancel that was asked for does not show on a job that ended otherwise', async ({ store }) => {
    const [ids, outcomes] = [await insertMany(store, 2), [complete(), die()]]
    const claimed = await claim(store, 2)
    await store.operate({ ids }, { do: 'cancel', reason: 'asked', retain: 1_000 })
    for (const [i, job] of claimed.entries()) {
      assert.equal(await settle(store, job, outcomes[i] as Outcome), 'applied')
      assert.equal((await read(store, job.id)).cancelReason, undefined, outcomes[i]?.to)
    }
  })

  test('many completions in one call forget a cancel that was asked for, too', async ({ store }) => {
    const ids = await insertMany(store, 3)
    const claimed = await claim(store, 3)
    await store.operate({ ids }, { do: 'cancel', reason: 'asked', retain: 1_000 })
    const settlements = claimed.map(({ id, token }) => ({
      id,
      token,
      outcome: complete(),
      inserts: undefined,
    }))
    await store.exchange({ worker: 'worker', settlements, claim: undefined })
    const reasons = (await store.get(ids)).map((record) => record?.cancelReason)
    assert.deepEqual(reasons, [undefined, undefined, undefined])
  })

  test('the last progress and logs arrive with the settlement, whatever the outcome', async ({ store }) => {
    for (const outcome of [complete('1'), retryIn(5), die(), stop(), released(), snoozed(1), wait()]) {
      const job = await running(store)
      await store.extend({ worker: 'worker', lease, held: [held(job, { progress: '1', logs: [line(0)] })] })
      assert.equal(
        await settle(store, job, outcome, { report: { progress: '2', logs: [line(1), line(2)] } }),
        'applied',
      )
      assert.equal((await read(store, job.id)).progress, '2', outcome.to)
      assert.deepEqual((await store.trail(job.id))?.logs, [line(0), line(1), line(2)], outcome.to)
    }
  })

  test('each of many completions in one call brings its own progress and logs', async ({ store }) => {
    const ids = await insertMany(store, 5)
    const claimed = await claim(store, 5)
    const settlements = claimed.map(({ id, token }, i) => {
      const report = i === 2 ? undefined : { progress: `${i}`, logs: [line(i)] }
      return { id, token, outcome: complete(), inserts: undefined, report }
    })
    const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.ok(settled.every((result) => result === 'applied'))
    for (const [i, id] of ids.entries()) {
      assert.equal((await read(store, id)).progress, i === 2 ? undefined : `${i}`)
      assert.deepEqual((await store.trail(id))?.logs, i === 2 ? [] : [line(i)])
    }
  })

  test('settlements of all kinds in one call, answered in order', async ({ store }) => {
    const outcomes = [complete('1'), retryIn(5), die(), stop(), released(), snoozed(5), wait(), complete()]
    await insertMany(store, outcomes.length)
    const claimed = await claim(store, outcomes.length)
    const settlements = outcomes.map((outcome, i) => {
      const { id, token } = claimed[i] as ClaimedJob
      return { id, token, outcome, inserts: undefined }
    })
    const stale = {
      id: idsOf(claimed)[0] as string,
      token: 'nonsense',
      outcome: released(),
      inserts: undefined,
    }
    settlements.splice(3, 0, stale)
    const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
    assert.deepEqual(
      settled,
      settlements.map((settlement) => (settlement === stale ? 'lost' : 'applied')),
    )
    const records = await store.get(idsOf(claimed))
    assert.deepEqual(
      records.map((record) => record?.state),
      outcomes.map((outcome) => outcome.to),
    )
  })

  test('what is settled can be claimed by the same exchange', async ({ store }) => {
    const id = await insertOne(store)
    const job = await claimOne(store)
    const child = newJob()
    const { settled, claimed } = await store.exchange({
      worker: 'worker',
      settlements: [{ id, token: job.token, outcome: released(), inserts: [child] }],
      claim: claimRequest(5),
    })
    assert.deepEqual(settled, ['applied'])
    assert.deepEqual(idsOf(claimed), [id, child.id])
    assert.notEqual(claimed[0]?.token, job.token)
  })

  test('jobs added by a handler exist if the settlement is applied', async ({ store }) => {
    const job = await running(store)
    const standing = await insertOne(store, { input: '"old"' })
    const inserts = [newJob(), newJob({ delay: 100 }), newJob({ id: standing, input: '"new"' })]
    assert.equal(await settle(store, job, complete(), { inserts }), 'applied')
    const records = await store.get(idsOf(inserts))
    assert.deepEqual(
      records.map((record) => record?.state),
      ['pending', 'scheduled', 'pending'],
    )
    assert.equal(records[2]?.input, '"old"', 'an id that exists is left as it stands')
    assert.equal(await totalOf(store, 'enqueued'), 3)
  })

  test('jobs added by a handler exist for every outcome, also when the job itself leaves nothing', async ({
    store,
  }) => {
    const gone = { completed: 0, dead: 0 }
    for (const outcome of [
      complete('1', gone),
      die(undefined, gone),
      retryIn(5),
      released(),
      snoozed(1),
      stop(),
    ]) {
      const job = await running(store)
      const child = newJob()
      assert.equal(await settle(store, job, outcome, { inserts: [child] }), 'applied')
      assert.equal(await exists(store, child.id), true, outcome.to)
    }
  })

  test('jobs added by a handler do not exist if the settlement is lost', async ({ store }) => {
    const job = await running(store)
    const inserts = [newJob()]
    assert.equal(await settle(store, { id: job.id, token: 'stale' }, complete(), { inserts }), 'lost')
    assert.equal(await settle(store, job, complete(), { worker: 'other', inserts }), 'lost')
    assert.equal(await exists(store, inserts[0]?.id as string), false)
    assert.equal(await settle(store, job, complete()), 'applied')
    assert.equal(await settle(store, job, complete(), { inserts }), 'lost')
    assert.equal(await exists(store, inserts[0]?.id as string), false)
  })

  test('an exchange is done whole or not at all', async ({ store }) => {
    const [a, b] = [await running(store), await running(store)]
    const children = [newJob({ queue: 'children' }), unreadable()]
    const waiting = await insertOne(store)
    const settlements = [
      { id: a.id, token: a.token, outcome: complete('1'), inserts: children.slice(0, 1) },
      { id: b.id, token: b.token, outcome: complete('2'), inserts: children.slice(1) },
    ]
    const done = await succeeds(store.exchange({ worker: 'worker', settlements, claim: claimRequest() }))
    assert.equal(await stateOf(store, a.id), done ? 'completed' : 'running')
    assert.equal(await stateOf(store, b.id), done ? 'completed' : 'running')
    assert.equal(await exists(store, idsOf(children)[0] as string), done)
    assert.equal(await stateOf(store, waiting), done ? 'running' : 'pending')
    assert.equal(await totalOf(store, 'completed', a.queue), done ? 1 : 0)
    const expected = done ? 'lost' : 'applied'
    assert.equal(
      await settle(store, a, complete()),
      expected,
      'the leases stand if and only if nothing happened',
    )
    assert.equal(await settle(store, b, complete()), expected)
  })

  async function claimOneAnd(store: Parameters<typeof claimOne>[0], outcome: Outcome): Promise<ClaimedJob> {
    const job = await claimOne(store)
    assert.equal(await settle(store, job, outcome), 'applied')
    return job
  }
}
