import assert from 'node:assert/strict'
import { type JobState, jobStates } from '../../core/job.js'
import { statesFor } from '../../core/lifecycle.js'
import type { Command, RetryChange } from '../../core/store.js'
import { held, line } from './extend.js'
import {
  claim,
  claimOne,
  complete,
  die,
  exists,
  failureOf,
  idsOf,
  insertMany,
  insertOne,
  jobIn,
  lease,
  newJob,
  operateAll,
  read,
  rescue,
  retryIn,
  running,
  settle,
  sorted,
  stateOf,
  statesOf,
  statesOfAll,
  sweep,
  type Test,
  timeOf,
  totalOf,
} from './helpers.js'

const cancel = { do: 'cancel', reason: 'not needed', retain: 5_000 } as const satisfies Command
const promote: Command = { do: 'promote' }
const remove: Command = { do: 'remove' }

function retry(change: RetryChange = {}, delay = 0, spacing = 0): Command {
  return { do: 'retry', delay, spacing, change }
}

const nothing = { affected: [], asked: [], missing: [], refused: [], cursor: undefined }

export function operateStates(test: Test): void {
  const allowed: Record<Command['do'], ReadonlySet<JobState>> = {
    cancel: statesFor('cancel'),
    retry: statesFor('retry'),
    promote: statesFor('promote'),
    // Nobody may pull a job from under its worker; a cancel asks for it.
    remove: new Set(jobStates.filter((state) => state !== 'running')),
    seal: new Set(),
  }
  const after: Record<Command['do'], JobState | undefined> = {
    cancel: 'cancelled',
    retry: 'pending',
    promote: 'pending',
    remove: undefined,
    seal: undefined,
  }

  for (const command of [cancel, retry(), promote, remove]) {
    for (const state of jobStates) {
      const applies = allowed[command.do].has(state)
      const asks = applies && command.do === 'cancel' && state === 'running'
      const answer = asks ? 'asked' : applies ? 'affected' : 'refused'
      test(`${command.do} of a ${state} job: ${answer}`, async ({ store, advance }) => {
        const id = await jobIn(store, state)
        const neighbour = await jobIn(store, state)
        await advance(1)
        const before = await read(store, id)
        assert.deepEqual(await store.operate({ ids: [id] }, command), { ...nothing, [answer]: [id] })
        if (answer === 'refused') assert.deepEqual(await read(store, id), before)
        else if (asks) assert.deepEqual(await read(store, id), { ...before, cancelReason: 'not needed' })
        else if (after[command.do] === undefined) assert.equal(await exists(store, id), false)
        else assert.equal(await stateOf(store, id), after[command.do])
        assert.equal(await stateOf(store, neighbour), state, 'others are left alone')
        const states = await statesOf(store, before.queue)
        const expected = answer === 'affected' ? after[command.do] : state
        if (expected !== undefined) assert.ok(states[expected] >= 1)
      })
    }
  }

  test('ids that are gone are named, each id once, in the order given', async ({ store }) => {
    const [a, b, c] = await insertMany(store, 3)
    const ids = ['gone-1', c, a, 'gone-2', a, b] as string[]
    const report = await store.operate({ ids }, cancel)
    assert.deepEqual(report, { ...nothing, affected: [c, a, b], missing: ['gone-1', 'gone-2'] })
    assert.equal((await statesOf(store)).cancelled, 3)
    assert.deepEqual(await store.operate({ ids: [] }, cancel), nothing)
  })
}

export function cancelTests(test: Test): void {
  test('a cancelled job keeps reason and times, and never runs', async ({ store, advance }) => {
    const later = await insertOne(store, { delay: 100 })
    const ready = await insertOne(store)
    const job = await running(store)
    await settle(store, job, retryIn(100))
    await advance(10)
    const now = await timeOf(store)
    const ids = [later, ready, job.id]
    await store.operate({ ids }, cancel)
    for (const id of ids) {
      const record = await read(store, id)
      assert.equal(record.state, 'cancelled')
      assert.equal(record.cancelReason, 'not needed')
      assert.equal(record.dueAt, undefined)
      assert.equal(record.finishedAt, now)
      assert.equal(record.expiresAt, now + 5_000)
    }
    assert.equal(await totalOf(store, 'cancelled'), 2)
    await advance(1_000)
    assert.equal((await sweep(store)).promoted, 0)
    assert.deepEqual(await claim(store, 10, { queues: ['main', job.queue] }), [])
    await advance(4_000)
    assert.equal((await sweep(store)).pruned, 3)
  })

  test('retain 0 leaves nothing', async ({ store, advance }) => {
    const ids = [await insertOne(store), await insertOne(store, { delay: 10 })]
    const report = await store.operate({ ids }, { ...cancel, retain: 0 })
    assert.deepEqual(report.affected, ids)
    assert.deepEqual(await store.get(ids), [undefined, undefined])
    assert.ok(Object.values(await statesOf(store)).every((count) => count === 0))
    await advance(10)
    assert.equal((await sweep(store)).promoted, 0)
    assert.deepEqual(await claim(store, 5), [])
  })

  test('a running job is asked; what its worker says then counts', async ({ store }) => {
    const [a, b] = [await running(store), await running(store)]
    const report = await store.operate({ ids: [a.id, b.id] }, cancel)
    assert.deepEqual(report.asked, [a.id, b.id])
    const { cancels } = await store.extend({ worker: 'worker', lease, held: [held(a), held(b)] })
    assert.deepEqual(
      cancels,
      [a, b].map(({ id }) => ({ id, reason: 'not needed' })),
    )
    assert.equal(await settle(store, a, complete('"too late"')), 'applied')
    assert.equal(await stateOf(store, a.id), 'completed')
    assert.equal(await stateOf(store, b.id), 'running')
  })
}

export function retryTests(test: Test): void {
  test('a replay is a new life: attempts, crashes, result and reason start again', async ({
    store,
    advance,
  }) => {
    const id = await insertOne(store)
    await settle(store, await claimOne(store), retryIn(5))
    await advance(5)
    await sweep(store)
    const job = await claimOne(store)
    await store.extend({ worker: 'worker', lease, held: [held(job, { progress: '1', logs: [line(1)] })] })
    await settle(store, job, die())
    assert.deepEqual((await store.operate({ ids: [id] }, retry())).affected, [id])
    const record = await read(store, id)
    assert.equal(record.state, 'pending')
    assert.deepEqual([record.attempt, record.crashes], [0, 0])
    for (const field of ['dueAt', 'finishedAt', 'expiresAt', 'result', 'cancelReason', 'worker'] as const) {
      assert.equal(record[field], undefined, field)
    }
    const again = await claimOne(store)
    assert.deepEqual([again.id, again.attempt, again.crashes, again.retryDelay], [id, 1, 0, 0])
    assert.equal(await settle(store, again, complete('2')), 'applied')
    assert.equal((await read(store, id)).result, '2')
  })

  test('a replayed job has its crashes before it again', async ({ store, advance }) => {
    const id = await insertOne(store, { maxCrashes: 2 })
    for (let life = 0; life < 2; life++) {
      for (let crashes = 0; crashes < 2; crashes++) {
        assert.equal((await claimOne(store, 'lost')).crashes, crashes)
        await advance(lease)
        const [orphan] = (await sweep(store)).orphans
        assert.ok(orphan)
        await rescue(store, orphan)
      }
      assert.equal(await stateOf(store, id), 'dead')
      await store.operate({ ids: [id] }, retry())
      assert.equal((await read(store, id)).crashes, 0)
    }
  })

  test('a replayed job does not expire by its old date', async ({ store, advance }) => {
    const job = await running(store)
    await settle(store, job, complete('1', { completed: 100, dead: 100 }))
    await store.operate({ ids: [job.id] }, retry())
    await advance(100)
    assert.equal((await sweep(store)).pruned, 0)
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.equal((await read(store, job.id)).result, undefined)
  })

  test('input, lane, queue, attempts and overrides can be changed', async ({ store }) => {
    const tags = ['kept']
    const job = await running(store, { tags, metadata: '"kept"', maxAttempts: 2, maxCrashes: 5 })
    await settle(store, job, die())
    const change = { input: '"fixed"', lane: 0, queue: 'repair', maxAttempts: 9, overrides: '{"timeout":9}' }
    await store.operate({ ids: [job.id] }, retry(change))
    const record = await read(store, job.id)
    const { input, lane, queue, maxAttempts, overrides } = record
    assert.deepEqual({ input, lane, queue, maxAttempts, overrides }, change)
    assert.deepEqual(
      [record.tags, record.metadata, record.maxCrashes, record.name],
      [tags, '"kept"', 5, job.name],
    )
    assert.equal((await statesOf(store, job.queue)).dead, 0)
    assert.equal((await statesOf(store, 'repair')).pending, 1)
    assert.deepEqual(await claim(store, 1, { queues: [job.queue] }), [])
    const [again] = await claim(store, 1, { queues: ['repair'] })
    assert.deepEqual([again?.id, again?.lane, again?.input, again?.maxAttempts], [job.id, 0, '"fixed"', 9])
    assert.equal(again?.overrides, '{"timeout":9}')
    assert.equal(await settle(store, again as { id: string; token: string }, complete()), 'applied')
    assert.equal((await statesOf(store, 'repair')).completed, 1)
  })

  test('what is not changed stays', async ({ store }) => {
    const job = await running(store, { overrides: '{"timeout":3}', input: '"same"', lane: 3 })
    await settle(store, job, die())
    await store.operate({ ids: [job.id] }, retry({ maxAttempts: 1 }))
    const { overrides, input, lane, queue, maxAttempts } = await read(store, job.id)
    assert.deepEqual([overrides, input, lane, queue], [job.overrides, job.input, 3, job.queue])
    assert.equal(maxAttempts, 1)
  })

  test('a delay schedules, spacing spreads by the jobs that are really replayed', async ({
    store,
    advance,
  }) => {
    const now = await timeOf(store)
    const ids = await insertMany(store, 4)
    for (const job of await claim(store, 4)) await settle(store, job, die())
    const live = await insertOne(store)
    const given = [ids[2], live, ids[0], ids[3], ids[1]] as string[]
    const report = await store.operate({ ids: given }, retry({}, 100, 50))
    assert.deepEqual(report.affected, [ids[2], ids[0], ids[3], ids[1]])
    assert.deepEqual(report.refused, [live])
    const due = await Promise.all(report.affected.map(async (id) => (await read(store, id)).dueAt))
    assert.deepEqual(
      due,
      [100, 150, 200, 250].map((delay) => now + delay),
    )
    assert.equal((await sweep(store)).nextDue, 100)
    await advance(150)
    assert.equal((await sweep(store)).promoted, 2)
    assert.deepEqual(sorted(idsOf(await claim(store, 10))), sorted([ids[2], ids[0], live] as string[]))
  })

  test('with spacing alone the first runs at once', async ({ store }) => {
    const ids = await insertMany(store, 3)
    for (const job of await claim(store, 3)) await settle(store, job, die())
    await store.operate({ ids }, retry({}, 0, 10))
    const records = await store.get(ids)
    assert.deepEqual(
      records.map((record) => record?.state),
      ['pending', 'scheduled', 'scheduled'],
    )
  })

  test('a replayed job leaves the group of its cause, and may die again', async ({ store }) => {
    const failure = failureOf('greet', 'same cause')
    const ids = await insertMany(store, 2)
    for (const job of await claim(store, 2)) await settle(store, job, die(failure))
    assert.equal((await store.causes())[0]?.count, 2)
    await store.operate({ ids: ids.slice(0, 1) }, retry())
    assert.equal((await store.causes())[0]?.count, 1)
    await settle(store, await claimOne(store), die(failure))
    assert.equal((await store.causes())[0]?.count, 2)
    await store.operate({ ids }, retry())
    assert.deepEqual(await store.causes(), [])
  })
}

export function promoteAndRemoveTests(test: Test): void {
  test('a promoted job is ready now and not a second time later', async ({ store, advance }) => {
    const id = await insertOne(store, { delay: 100 })
    await store.operate({ ids: [id] }, promote)
    const record = await read(store, id)
    assert.deepEqual([record.state, record.dueAt], ['pending', undefined])
    assert.equal((await sweep(store)).nextDue, undefined)
    await advance(100)
    assert.equal((await sweep(store)).promoted, 0)
    assert.deepEqual(idsOf(await claim(store, 5)), [id])
  })

  test('a removed job is gone with all that belongs to it, and its id is free', async ({
    store,
    advance,
  }) => {
    const ids = await Promise.all(
      jobStates.filter((state) => state !== 'running').map((state) => jobIn(store, state)),
    )
    const report = await store.operate({ ids }, remove)
    assert.deepEqual(report.affected, ids)
    for (const id of ids) assert.equal(await store.trail(id), undefined)
    assert.deepEqual(await store.causes(), [])
    const states = await statesOfAll(store)
    for (const state of jobStates) assert.equal(states[state], 0, state)
    assert.equal(await totalOf(store, 'pruned'), 0, 'pruned counts what retention removes')
    await advance(10 ** 6)
    const { promoted, pruned } = await sweep(store)
    assert.deepEqual([promoted, pruned], [0, 0])
    assert.deepEqual(await store.operate({ ids }, remove), { ...nothing, missing: ids })
    const results = await store.insert(ids.map((id) => newJob({ id })))
    assert.ok(results.every((result) => result.status === 'inserted'))
  })
}

export function operateFilters(test: Test): void {
  for (const limit of [1, 3, 100]) {
    test(`a command by filter, ${limit} at a time, reaches every job once and ends`, async ({ store }) => {
      const ids = await insertMany(store, 10, { delay: 50 })
      const others = [
        ...(await insertMany(store, 5)),
        ...(await insertMany(store, 5, { delay: 50, queue: 'other' })),
      ]
      const report = await operateAll(store, { state: 'scheduled', queue: 'main' }, promote, limit)
      assert.deepEqual(sorted(report.affected), sorted(ids))
      assert.deepEqual([report.asked, report.refused, report.missing], [[], [], []])
      assert.equal((await statesOf(store)).pending, 15)
      assert.equal((await statesOf(store, 'other')).scheduled, 5)

      const cancelled = await operateAll(store, { state: 'pending' }, cancel, limit)
      assert.deepEqual(sorted(cancelled.affected), sorted([...ids, ...others.slice(0, 5)]))
      const retried = await operateAll(store, { state: 'cancelled' }, retry(), limit)
      assert.deepEqual(sorted(retried.affected), sorted(cancelled.affected))
      const removed = await operateAll(store, { state: 'pending' }, remove, limit)
      assert.deepEqual(sorted(removed.affected), sorted(cancelled.affected))
    })
  }

  test('a command that changes nothing still ends: running jobs are asked, live ones refused', async ({
    store,
  }) => {
    const ids = await insertMany(store, 7)
    await claim(store, 7)
    assert.deepEqual(sorted((await operateAll(store, { state: 'running' }, cancel, 2)).asked), sorted(ids))
    assert.deepEqual(sorted((await operateAll(store, { state: 'running' }, remove, 2)).refused), sorted(ids))
    const waiting = await insertMany(store, 5)
    assert.deepEqual(
      sorted((await operateAll(store, { state: 'pending' }, retry(), 2)).refused),
      sorted(waiting),
    )
  })

  test('the dead of one cause can be replayed by themselves', async ({ store }) => {
    const [timeout, refused] = [failureOf('greet', 'timeout'), failureOf('greet', 'refused')]
    const ids = await insertMany(store, 6)
    for (const [i, job] of (await claim(store, 6)).entries()) {
      await settle(store, job, die(i % 2 === 0 ? timeout : refused))
    }
    const report = await operateAll(store, { state: 'dead', cause: timeout.cause }, retry(), 2)
    assert.deepEqual(sorted(report.affected), sorted(ids.filter((_, i) => i % 2 === 0)))
    const causes = await store.causes()
    assert.deepEqual(
      causes.map(({ cause, count }) => [cause, count]),
      [[refused.cause, 3]],
    )
  })

  test('jobs that arrive meanwhile do not keep a command from ending', async ({ store }) => {
    const ids = await insertMany(store, 6, { delay: 50 })
    const reached: string[] = []
    let cursor: string | undefined
    for (let i = 0; i < 100; i++) {
      const selector = { filter: { state: 'scheduled' } as const, limit: 2, cursor }
      const report = await store.operate(selector, cancel)
      reached.push(...report.affected)
      cursor = report.cursor
      if (cursor === undefined) break
      // Due before those that are left, so that a cursor by due date has passed them.
      if (i < 3) await insertOne(store, { delay: 1 })
    }
    assert.equal(cursor, undefined)
    assert.equal(new Set(reached).size, reached.length)
    assert.ok(ids.every((id) => reached.includes(id)))
  })
}
