import assert from 'node:assert/strict'
import type { ClaimedJob } from '../../core/job.js'
import { waiting } from '../../core/lifecycle.js'
import type { StepRecord, Wait } from '../../core/step.js'
import type { Store } from '../../core/store.js'
import {
  claim,
  claimOne,
  idsOf,
  insertOne,
  lease,
  listAll,
  newJob,
  read,
  rescue,
  running,
  settle,
  stateOf,
  statesOfAll,
  sweep,
  type Test,
  timeOf,
} from './helpers.js'
import { done, sleeping, stepsOf } from './steps.js'

export function waitingTests(test: Test): void {
  test('a sleep ends at its time: the job is ready, its step is over, no attempt is spent', async ({
    store,
    advance,
  }) => {
    const job = await running(store, { queue: 'main' })
    const until = (await timeOf(store)) + 100
    assert.equal(await wait(store, job, { until }, [sleeping('nap', until)]), 'applied')
    const record = await read(store, job.id)
    assert.deepEqual([record.state, record.dueAt, record.attempt], ['blocked', until, 0])
    assert.equal(record.worker, undefined)
    await advance(99)
    const early = await sweep(store)
    assert.deepEqual([early.promoted, early.nextDue], [0, 1])
    assert.deepEqual(await claim(store), [])
    assert.deepEqual(await stepsOf(store, job.id), [sleeping('nap', until)])
    await advance(1)
    assert.equal((await sweep(store)).promoted, 1)
    assert.deepEqual(await stepsOf(store, job.id), [{ ...sleeping('nap', until), open: false }])
    const again = await claimOne(store)
    assert.deepEqual([again.id, again.attempt, again.stepped, again.readyAt], [job.id, 1, true, until])
    assert.equal((await read(store, job.id)).dueAt, undefined)
  })

  test('a sleep that is over already, or ends while others run, does not wait', async ({ store }) => {
    const job = await running(store, { queue: 'main' })
    const now = await timeOf(store)
    const steps = [sleeping('over', now), sleeping('long', now + 1_000), sleeping('endless', undefined)]
    assert.equal(await wait(store, job, { until: now }, steps), 'applied')
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.deepEqual(
      (await stepsOf(store, job.id))?.map(({ open }) => open),
      [false, true, true],
    )
    assert.equal((await claimOne(store)).id, job.id)
  })

  test('waking ends what is over, and leaves open what is not', async ({ store, advance }) => {
    const job = await running(store, { queue: 'main' })
    const now = await timeOf(store)
    const steps = [sleeping('a', now + 10), sleeping('b', now + 20), done('c', '1')]
    await wait(store, job, { until: now + 10 }, steps)
    await advance(15)
    await sweep(store)
    const [a, b, c] = (await stepsOf(store, job.id)) as [StepRecord, StepRecord, StepRecord]
    assert.deepEqual([a.open, b.open, c], [false, true, done('c', '1')])
    const again = await claimOne(store)
    await wait(store, again, { until: now + 20 })
    assert.equal(await stateOf(store, job.id), 'blocked')
    await advance(5)
    await sweep(store)
    assert.deepEqual(
      (await stepsOf(store, job.id))?.map(({ open }) => open),
      [false, false, false],
    )
  })

  test('a clock that is set back does not open again what is over', async ({ store, advance, jump }) => {
    if (jump === undefined) return
    const job = await running(store, { queue: 'main' })
    const until = (await timeOf(store)) + 1_000
    await wait(store, job, { until }, [sleeping('nap', until)])
    await advance(1_000)
    await sweep(store)
    jump(-500)
    await sweep(store)
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.deepEqual(await stepsOf(store, job.id), [{ ...sleeping('nap', until), open: false }])
  })

  test('counts, lists and signals know waiting jobs', async ({ store }) => {
    const heard: number[] = []
    store.subscribe((signal) => {
      if (signal.type === 'due') heard.push(signal.delay)
    })
    const now = await timeOf(store)
    const ids: string[] = []
    for (const until of [now + 300, undefined, now + 100, now + 200]) {
      const job = await running(store)
      await wait(store, job, { until, signals: [{ key: 'k', step: 's', after: 0 }] })
      ids.push(job.id)
    }
    assert.ok(Math.min(...heard) <= 100)
    assert.equal((await statesOfAll(store)).blocked, 4)
    const [a, b, c, d] = ids
    assert.deepEqual(idsOf(await listAll(store, { state: 'blocked' }, 1)), [c, d, a, b])
    const soon = await listAll(store, { state: 'blocked', after: now + 100, before: now + 201 })
    assert.deepEqual(idsOf(soon), [c, d])
    assert.equal((await sweep(store)).nextDue, 100)
  })

  test('a blocked job that is cancelled or removed waits for nothing any more', async ({
    store,
    advance,
  }) => {
    for (const command of [
      { do: 'cancel', reason: 'no', retain: 1_000_000 },
      { do: 'cancel', reason: 'no', retain: 0 },
      { do: 'remove' },
    ] as const) {
      const job = await running(store, { queue: 'main' })
      const until = (await timeOf(store)) + 50
      const wanted = { until, signals: [{ key: 'k', step: 's', after: 0 }] }
      await wait(store, job, wanted, [sleeping('s', until)])
      const { affected } = await store.operate({ ids: [job.id] }, command)
      assert.deepEqual(affected, [job.id])
      const [sent] = await store.signal([{ key: 'k', id: job.id, payload: '1', retain: 0 }])
      assert.deepEqual(sent, { status: 'sent', woken: 0 })
      await advance(60)
      assert.equal((await sweep(store)).promoted, 0)
      assert.deepEqual(await claim(store), [])
    }
  })

  test('promote does not wake a job that waits: what it waits for is not over', async ({ store }) => {
    const job = await running(store)
    await wait(store, job, { until: (await timeOf(store)) + 50 })
    const { refused } = await store.operate({ ids: [job.id] }, { do: 'promote' })
    assert.deepEqual(refused, [job.id])
    assert.equal(await stateOf(store, job.id), 'blocked')
  })

  test('a job that was asked to stop is cancelled instead of waiting', async ({ store }) => {
    const job = await running(store)
    await store.operate({ ids: [job.id] }, { do: 'cancel', reason: 'enough', retain: 1_000 })
    const wanted = { signals: [{ key: 'k', step: 's', after: 0 }] }
    assert.equal(await wait(store, job, wanted, [sleeping('s', undefined)]), 'cancelled')
    assert.equal(await stateOf(store, job.id), 'cancelled')
    assert.equal((await store.signal([{ key: 'k', id: '1', payload: '1', retain: 0 }]))[0]?.woken, 0)
    assert.equal(await stateOf(store, job.id), 'cancelled')
  })

  test('a zombie does not make its job wait', async ({ store, advance }) => {
    await insertOne(store)
    const zombie = await claimOne(store, 'zombie')
    await advance(lease)
    for (const orphan of (await sweep(store)).orphans) await rescue(store, orphan)
    const heir = await claimOne(store, 'heir')
    const wanted = { signals: [{ key: 'k', step: 's', after: 0 }] }
    assert.equal(await wait(store, zombie, wanted, [sleeping('s', undefined)], 'zombie'), 'lost')
    assert.equal(await stateOf(store, heir.id), 'running')
    assert.deepEqual(await stepsOf(store, heir.id), [])
    assert.equal((await store.signal([{ key: 'k', id: '1', payload: '1', retain: 0 }]))[0]?.woken, 0)
  })

  test('a job that waits gives back what it held of its limits', async ({ store }) => {
    await store.configure({
      gate: { of: 'job', name: 'greet' },
      change: { limit: { concurrency: 1 } },
      declared: false,
    })
    await store.insert([newJob(), newJob()])
    const first = await claimOne(store)
    assert.deepEqual(await claim(store), [])
    await wait(store, first, { signals: [{ key: 'k', step: 's', after: 0 }] })
    const second = await claimOne(store)
    await store.signal([{ key: 'k', id: '1', payload: undefined, retain: 0 }])
    assert.equal(await stateOf(store, first.id), 'pending')
    assert.deepEqual(await claim(store), [], 'and stands in line for it again')
    await wait(store, second, { signals: [{ key: 'other', step: 's', after: 0 }] })
    assert.equal((await claimOne(store)).id, first.id)
  })

  test('a job that waits and is cancelled for a newer one is woken by nothing', async ({ store }) => {
    const dedupe = { key: 'k', mode: 'replace', window: 0, most: 0 } as const
    const first = await running(store, { queue: 'main', dedupe })
    const until = (await timeOf(store)) + 50
    const wanted = { until, signals: [{ key: 's', step: 's', after: 0 }] }
    await wait(store, first, wanted, [sleeping('s', until)])
    const newer = newJob({ dedupe, input: '"new"' })
    await store.insert([newer])
    assert.equal((await store.signal([{ key: 's', id: '1', payload: '1', retain: 0 }]))[0]?.woken, 0)
    const job = await claimOne(store)
    assert.deepEqual([job.id, job.input, job.stepped], [newer.id, '"new"', false])
  })
}

export function wait(
  store: Store,
  job: Pick<ClaimedJob, 'id' | 'token'>,
  wanted: Partial<Wait>,
  steps: readonly StepRecord[] = [],
  worker = 'worker',
) {
  const outcome = waiting({ until: undefined, signals: [], children: false, fans: [], ...wanted })
  const report = { progress: undefined, logs: undefined, steps }
  return settle(store, job, outcome, { worker, report })
}
