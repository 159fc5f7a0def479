import assert from 'node:assert/strict'
import { bounds } from '../../core/bounds.js'
import type { ClaimedJob } from '../../core/job.js'
import { waiting } from '../../core/lifecycle.js'
import type { NewSignal } from '../../core/step.js'
import {
  claim,
  claimOne,
  fresh,
  insertMany,
  nextSignal,
  running,
  stateOf,
  statesOf,
  sweep,
  type Test,
  timeOf,
} from './helpers.js'
import { sleeping, stepsOf } from './steps.js'
import { wait } from './waiting.js'

const hour = 3600_000

export function signalTests(test: Test): void {
  test('a signal wakes the jobs that wait for its key, with its payload as the memo', async ({ store }) => {
    const [a, b, other] = [await running(store), await running(store), await running(store)]
    for (const job of [a, b]) await wait(store, job, waitsFor('go'), [sleeping('s', undefined)])
    await wait(store, other, waitsFor('no'))
    const ready = nextSignal(store, (signal) => signal.type === 'ready')
    assert.deepEqual(await store.signal([signal('go', '{"n":1}')]), [{ status: 'sent', woken: 2 }])
    await ready
    const now = await timeOf(store)
    for (const job of [a, b]) {
      assert.equal(await stateOf(store, job.id), 'pending')
      const [step] = (await stepsOf(store, job.id)) ?? []
      assert.deepEqual(step, {
        name: 's',
        value: '{"n":1}',
        open: false,
        until: undefined,
        signal: step?.signal,
        at: now,
      })
      assert.ok((step?.signal as number) > 0)
    }
    assert.equal(await stateOf(store, other.id), 'blocked')
    assert.deepEqual(await store.signal([signal('go')]), [{ status: 'sent', woken: 0 }])
  })

  test('a signal that is sent again with its id is sent once', async ({ store }) => {
    const sent = signal('go', '1')
    assert.deepEqual(await store.signal([sent, sent]), [
      { status: 'sent', woken: 0 },
      { status: 'duplicate', woken: 0 },
    ])
    const job = await running(store, { queue: 'main' })
    await wait(store, job, waitsFor('go'))
    const again = await claimOne(store)
    const [step] = (await stepsOf(store, job.id)) ?? []
    await wait(store, again, waitsFor('go', step?.signal, 's#2'))
    assert.deepEqual(await store.signal([sent]), [{ status: 'duplicate', woken: 0 }])
    assert.equal(await stateOf(store, job.id), 'blocked')
    const other = { ...sent, key: 'another key' }
    assert.deepEqual(await store.signal([other]), [{ status: 'sent', woken: 0 }], 'ids are of a key')
  })

  test('signals are kept for jobs that wait later, until their time is over', async ({ store, advance }) => {
    await store.signal([signal('k', '"kept"', 100), signal('k', '"longer"', 200)])
    const first = await running(store, { queue: 'main' })
    await wait(store, first, waitsFor('k'), [sleeping('s', undefined)])
    assert.equal(await stateOf(store, first.id), 'pending')
    assert.equal((await stepsOf(store, first.id))?.[0]?.value, '"kept"')
    await advance(101)
    const second = await running(store)
    await wait(store, second, waitsFor('k'))
    assert.equal((await stepsOf(store, second.id))?.[0]?.value, '"longer"')
    await sweep(store)
    await advance(100)
    await sweep(store)
    const third = await running(store)
    await wait(store, third, waitsFor('k'))
    assert.equal(await stateOf(store, third.id), 'blocked')
  })

  test('a signal that is not kept wakes who waits, and nobody later', async ({ store, advance }) => {
    const job = await running(store)
    await wait(store, job, waitsFor('k'))
    assert.deepEqual(await store.signal([signal('k', '1', 0)]), [{ status: 'sent', woken: 1 }])
    await advance(1)
    const late = await running(store)
    await wait(store, late, waitsFor('k'))
    assert.equal(await stateOf(store, late.id), 'blocked')
  })

  test('a job gets each signal once, in order, however it waits', async ({ store }) => {
    await store.signal([signal('k', '1'), signal('k', '2'), signal('other', '9')])
    const first = await running(store, { queue: 'main' })
    let job: ClaimedJob = first
    const got: (string | undefined)[] = []
    let after = 0
    for (let i = 0; i < 4; i++) {
      if (i === 3) await store.signal([signal('k', '4')])
      await wait(store, job, waitsFor('k', after, `s${i}`))
      if (i === 2) await store.signal([signal('k', '3')])
      job = await claimOne(store)
      const step = (await stepsOf(store, job.id))?.find(({ name }) => name === `s${i}`)
      got.push(step?.value)
      after = step?.signal as number
    }
    assert.deepEqual(got, ['1', '2', '3', '4'])
  })

  test('several waits of a job: each gets a signal of its own, and the first one wakes it', async ({
    store,
  }) => {
    const job = await running(store, { queue: 'main' })
    const signals = [
      { key: 'k', step: 'a', after: 0 },
      { key: 'k', step: 'b', after: 0 },
      { key: 'other', step: 'c', after: 0 },
    ]
    const steps = ['a', 'b', 'c'].map((name) => sleeping(name, undefined))
    await wait(store, job, { signals }, steps)
    assert.equal((await store.signal([signal('k', '1')]))[0]?.woken, 1)
    await store.signal([signal('k', '2'), signal('k', '3'), signal('other', '9')])
    const values = async () => (await stepsOf(store, job.id))?.map(({ value }) => value)
    assert.deepEqual(await values(), ['1', undefined, undefined])
    const again = await claimOne(store)
    const had = (await stepsOf(store, job.id))?.[0]?.signal as number
    await wait(store, again, {
      signals: [
        { key: 'k', step: 'b', after: had },
        { key: 'other', step: 'c', after: 0 },
      ],
    })
    assert.equal(await stateOf(store, job.id), 'pending')
    assert.deepEqual(await values(), ['1', '2', '9'])
  })

  test('a signal that comes when the time is over but nobody has swept still counts', async ({
    store,
    advance,
  }) => {
    const job = await running(store, { queue: 'main' })
    const until = (await timeOf(store)) + 10
    await wait(store, job, { until, ...waitsFor('k') }, [sleeping('s', until)])
    await advance(20)
    await store.signal([signal('k', '"late"')])
    await sweep(store)
    const [step] = (await stepsOf(store, job.id)) ?? []
    assert.deepEqual([step?.value, step?.open], ['"late"', false])
    assert.equal((await claim(store, 5)).length, 1, 'woken once')
  })

  test('a wait whose time is over gets a signal that was kept for it meanwhile', async ({
    store,
    advance,
  }) => {
    const job = await running(store, { queue: 'main' })
    const until = (await timeOf(store)) + 10
    await store.signal([signal('k', '"in time"')])
    await advance(20)
    await wait(store, job, { until, ...waitsFor('k') }, [sleeping('s', until)])
    const [step] = (await stepsOf(store, job.id)) ?? []
    assert.deepEqual([step?.value, step?.open], ['"in time"', false])
  })

  test('a wait that times out is over without a signal, for good', async ({ store, advance }) => {
    const job = await running(store, { queue: 'main' })
    const until = (await timeOf(store)) + 10
    await wait(store, job, { until, ...waitsFor('k') }, [sleeping('s', until)])
    await advance(10)
    await sweep(store)
    assert.deepEqual((await store.signal([signal('k', '1')]))[0]?.woken, 0)
    const [step] = (await stepsOf(store, job.id)) ?? []
    assert.deepEqual([step?.open, step?.signal, step?.value], [false, undefined, undefined])
  })

  test(`more than ${bounds.batch} jobs that wait: the rest are woken by sweeps, in order`, async ({
    store,
  }) => {
    const count = bounds.batch + 30
    for (let left = count; left > 0; left -= 500) await insertMany(store, Math.min(left, 500))
    const claimed: ClaimedJob[] = []
    while (claimed.length < count) claimed.push(...(await claim(store, 1_000)))
    for (let i = 0; i < count; i += 500) {
      const settlements = claimed.slice(i, i + 500).map(({ id, token }) => ({
        id,
        token,
        outcome: waiting({ until: undefined, signals: waitsFor('k').signals, children: false, fans: [] }),
        inserts: undefined,
      }))
      await store.exchange({ worker: 'worker', settlements, claim: undefined })
    }
    const [first] = await store.signal([signal('k', '1', 0)])
    assert.equal(first?.woken, bounds.batch)
    // Who has not heard the first hears it first.
    const [second] = await store.signal([signal('k', '2', hour)])
    assert.equal(second?.woken, 30)
    const last = claimed.at(-1) as ClaimedJob
    assert.deepEqual((await stepsOf(store, last.id))?.[0]?.value, '1')
    assert.equal((await sweep(store)).more, false)
    assert.deepEqual(await statesOf(store), { ...(await statesOf(store)), pending: count, blocked: 0 })
  })

  test('a spread that sweeps go on with is bounded, and says that there is more', async ({ store }) => {
    const count = bounds.batch + 7
    for (let left = count; left > 0; left -= 500) await insertMany(store, Math.min(left, 500))
    const claimed: ClaimedJob[] = []
    while (claimed.length < count) claimed.push(...(await claim(store, 1_000)))
    const settlements = claimed.map(({ id, token }) => ({
      id,
      token,
      outcome: waiting({ until: undefined, signals: waitsFor('k').signals, children: false, fans: [] }),
      inserts: undefined,
    }))
    for (let i = 0; i < count; i += 500)
      await store.exchange({ worker: 'worker', settlements: settlements.slice(i, i + 500), claim: undefined })
    await store.signal([signal('k', '1', 0)])
    const reports = [await sweep(store, { limit: 5 }), await sweep(store, { limit: 5 })]
    assert.deepEqual(
      reports.map(({ promoted, more }) => [promoted, more]),
      [
        [5, true],
        [2, false],
      ],
    )
    assert.equal((await statesOf(store)).blocked, 0)
  })

  test('signals that are over are forgotten, a bounded number at a time', async ({ store, advance }) => {
    const sent = Array.from({ length: 12 }, () => signal('k', '1', 5))
    await store.signal(sent)
    await advance(6)
    const more = []
    for (let i = 0; i < 3; i++) more.push((await sweep(store, { limit: 5 })).more)
    assert.deepEqual(more, [true, true, false])
    assert.deepEqual(await store.signal([sent[0] as NewSignal]), [{ status: 'sent', woken: 0 }])
  })
}

function waitsFor(key: string, after = 0, step = 's') {
  return { signals: [{ key, step, after }] }
}

function signal(key: string, payload?: string, retain = hour): NewSignal {
  return { key, id: fresh('signal'), payload, retain }
}
