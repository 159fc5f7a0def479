import assert from 'node:assert/strict'
import { bounds } from '../../core/bounds.js'
import type { ClaimedJob, LogLine } from '../../core/job.js'
import type { Held } from '../../core/store.js'
import {
  claim,
  complete,
  idsOf,
  insertMany,
  lease,
  read,
  retryIn,
  running,
  settle,
  sweep,
  type Test,
} from './helpers.js'
import { nastyTexts } from './texts.js'

export function extend(test: Test): void {
  test('a lease that is renewed in time never ends', async ({ store, advance }) => {
    await running(store)
    for (let i = 0; i < 5; i++) {
      await advance(lease - 1)
      assert.deepEqual((await sweep(store)).orphans, [])
      await store.extend({ worker: 'worker', lease, held: [] })
    }
  })

  test('an extension is good for a whole lease, however soon after the last it comes', async ({
    store,
    advance,
  }) => {
    const job = await running(store)
    await advance(1)
    await store.extend({ worker: 'worker', lease, held: [held(job)] })
    await advance(lease - 1)
    assert.deepEqual((await sweep(store)).orphans, [])
    await advance(1)
    assert.equal((await sweep(store)).orphans.length, 1)
  })

  test('a renewal covers all jobs of the worker and of no other', async ({ store, advance }) => {
    await insertMany(store, 3)
    await claim(store, 2, { worker: 'a' })
    const [other] = await claim(store, 1, { worker: 'b' })
    await advance(lease - 1)
    await store.extend({ worker: 'a', lease, held: [] })
    await advance(1)
    assert.deepEqual(idsOf((await sweep(store)).orphans), [other?.id])
  })

  test('progress is kept, the last one wins, none leaves it alone', async ({ store }) => {
    const job = await running(store)
    for (const [progress, seen] of [
      ['1', '1'],
      ['{"percent":50}', '{"percent":50}'],
      [undefined, '{"percent":50}'],
      ['null', 'null'],
    ] as const) {
      assert.deepEqual(await report(job, { progress }), {
        lost: [],
        cancels: [],
        open: [],
        strays: [],
      })
      assert.equal((await read(store, job.id)).progress, seen)
    }

    function report(job: { id: string; token: string }, fields: Partial<Held>) {
      return store.extend({ worker: 'worker', lease, held: [held(job, fields)] })
    }
  })

  test('each of many jobs gets its own progress and logs', async ({ store }) => {
    const ids = await insertMany(store, 10)
    const claimed = await claim(store, 10)
    const all = claimed.map((job, i) => held(job, { progress: `${i}`, logs: [line(i)] }))
    assert.deepEqual(await store.extend({ worker: 'worker', lease, held: all }), {
      lost: [],
      cancels: [],
      open: [],
      strays: [],
    })
    for (const [i, id] of ids.entries()) {
      assert.equal((await read(store, id)).progress, `${i}`)
      assert.deepEqual((await store.trail(id))?.logs, [line(i)])
    }
  })

  test('log lines are kept in order, across calls and attempts', async ({ store }) => {
    const job = await running(store)
    const texts = nastyTexts.map((text) => JSON.parse(text) as string).filter((text) => text.isWellFormed())
    const lines = texts.map((text, i) => ({ ...line(i), text: text.replaceAll('\0', '') }))
    await store.extend({ worker: 'worker', lease, held: [held(job, { logs: lines.slice(0, 5) })] })
    await store.extend({ worker: 'worker', lease, held: [held(job, { logs: [] })] })
    await store.extend({ worker: 'worker', lease, held: [held(job, { logs: lines.slice(5) })] })
    assert.deepEqual((await store.trail(job.id))?.logs, lines)
    await settle(store, job, complete())
    assert.deepEqual((await store.trail(job.id))?.logs, lines, 'and stay when the job ends')
  })

  test(`the last ${bounds.logLines} log lines are kept`, async ({ store }) => {
    const job = await running(store)
    const lines = Array.from({ length: 3 * bounds.logLines }, (_, i) => line(i))
    for (let i = 0; i < 250; i += 50) {
      await store.extend({ worker: 'worker', lease, held: [held(job, { logs: lines.slice(i, i + 50) })] })
    }
    assert.deepEqual((await store.trail(job.id))?.logs, lines.slice(150, 250))
    await store.extend({ worker: 'worker', lease, held: [held(job, { logs: lines })] })
    assert.deepEqual(
      (await store.trail(job.id))?.logs,
      lines.slice(-bounds.logLines),
      'also when one call brings more',
    )
  })

  test('lines of a run that come twice are written once, with the outcome too', async ({
    store,
    advance,
  }) => {
    const lines = Array.from({ length: 6 }, (_, i) => line(i))
    const report = (from: number, to: number) => ({
      progress: undefined,
      logs: lines.slice(from, to),
      logsFrom: from,
    })
    const logs = async () => (await store.trail(job.id))?.logs
    const job = await running(store)
    for (const [from, to] of [
      [0, 2],
      [0, 3],
      [1, 2],
      [3, 4],
    ] as const)
      await store.extend({ worker: 'worker', lease, held: [held(job, report(from, to))] })
    assert.deepEqual(await logs(), lines.slice(0, 4))
    await settle(store, job, retryIn(0), { report: report(2, 6) })
    assert.deepEqual(await logs(), lines)

    await advance(1)
    await sweep(store)
    const [again] = await claim(store, 1, { queues: [job.queue] })
    await store.extend({ worker: 'worker', lease, held: [held(again as ClaimedJob, report(0, 2))] })
    await settle(store, again as ClaimedJob, complete(), { report: report(0, 3) })
    assert.deepEqual(await logs(), [...lines, ...lines.slice(0, 3)], 'the next run begins anew')
  })

  test('jobs that the worker no longer holds are named, the others are written', async ({ store }) => {
    const ids = await insertMany(store, 4)
    const claimed = await claim(store, 4)
    const [settled, , stale] = claimed
    await settle(store, settled as { id: string; token: string }, complete())
    const all = claimed.map((job) =>
      held(job === stale ? { ...job, token: 'x' } : job, { progress: '9', logs: [line(0)] }),
    )
    all.push(held({ id: 'unknown', token: 'unknown' }, { progress: '9' }))
    const { lost, cancels } = await store.extend({ worker: 'worker', lease, held: all })
    assert.deepEqual([...lost].sort(), [ids[0], ids[2], 'unknown'].sort())
    assert.deepEqual(cancels, [])
    const records = await store.get(ids)
    assert.deepEqual(
      records.map((record) => record?.progress),
      [undefined, '9', undefined, '9'],
    )
    for (const [i, id] of ids.entries()) {
      assert.equal((await store.trail(id))?.logs.length, i % 2, `logs of job ${i}`)
    }
  })

  test('a cancel is reported until the job is settled, with the job that it is about', async ({ store }) => {
    const ids = await insertMany(store, 3)
    const claimed = await claim(store, 3)
    const all = claimed.map((job) => held(job))
    assert.deepEqual((await store.extend({ worker: 'worker', lease, held: all })).cancels, [])
    await store.operate({ ids: [ids[1] as string] }, { do: 'cancel', reason: 'too late', retain: 1_000 })
    for (let i = 0; i < 2; i++) {
      const { lost, cancels } = await store.extend({ worker: 'worker', lease, held: all })
      assert.deepEqual(lost, [])
      assert.deepEqual(cancels, [{ id: ids[1], reason: 'too late' }])
    }
    const quiet = await store.extend({ worker: 'worker', lease, held: all.slice(0, 1) })
    assert.deepEqual(quiet.cancels, [], 'about jobs that were asked for only')
  })
}

export function held(job: { readonly id: string; readonly token: string }, fields: Partial<Held> = {}): Held {
  return { id: job.id, token: job.token, progress: undefined, logs: undefined, ...fields }
}

export function line(i: number): LogLine {
  const levels = ['debug', 'info', 'warn', 'error'] as const
  return { at: 1_000 + i, level: levels[i % 4] as LogLine['level'], text: `line ${i}` }
}
