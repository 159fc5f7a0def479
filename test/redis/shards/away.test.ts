/** While one shard does not answer, what is on the others goes on. */

import type { ClaimedJob, Store } from 'millrace'
import { expect, onTestFinished, test } from 'vitest'
import { shardOf } from '../../../src/stores/redis/shards/placing.js'
import { claim, insertMany } from '../../../src/testing/conformance/helpers.js'
import { intercept } from '../intercept.js'
import { openStore, signal } from '../redis.js'
import { spread } from './spread.js'

const lease = 4_800
const retention = { completed: 60_000, dead: 60_000 }

/** All that is asked of the second shard waits until the test is over, or the answer ends it. */
function takeAway(): () => void {
  const back = signal()
  const end = intercept(async (run, _, shard) => {
    if (shard.base.endsWith(':1}')) await back.promise
    return run()
  })
  onTestFinished(() => back.resolve())
  return () => {
    end()
    back.resolve()
  }
}

async function held(): Promise<{ store: Store; near: ClaimedJob[]; far: ClaimedJob[] }> {
  const store = spread(await openStore({ shards: 3 }))
  await insertMany(store, 30)
  const jobs = await claim(store, 30)
  const isFar = ({ id }: ClaimedJob) => shardOf(id, 3) === 1
  return { store, near: jobs.filter((job) => !isFar(job)), far: jobs.filter(isFar) }
}

const extend = (store: Store, jobs: readonly ClaimedJob[]) =>
  store.extend({
    worker: 'worker',
    lease,
    held: jobs.map(({ id, token }) => ({ id, token, progress: '1', logs: undefined })),
    inventory: { leaving: [], claiming: [] },
  })

test('a worker is renewed there, and what is on the one that is away is neither renewed nor lost, until its lease is over', async () => {
  const { store, near, far } = await held()
  expect(near.length).toBeGreaterThan(0)
  expect(far.length).toBeGreaterThan(0)
  const renewedAt = performance.now()
  await extend(store, [...near, ...far])
  const comeBack = takeAway()
  const first = await extend(store, [...near, ...far])
  expect(first.lost).toEqual([])
  expect(first.unheard).toEqual(far.map(({ id }) => id))
  let last = first
  // Each takes a part of the lease.
  while (last.lost.length === 0) last = await extend(store, [...near, ...far])
  expect(performance.now() - renewedAt).toBeGreaterThanOrEqual(lease)
  expect(last.lost).toEqual(far.map(({ id }) => id))
  const records = await store.get(near.map(({ id }) => id))
  expect(records.map((job) => job?.progress)).toEqual(near.map(() => '1'))
  comeBack()
  expect((await extend(store, near)).unheard).toBeUndefined()
})

test('what is written of a job there is written, or fails', async () => {
  const { store, far } = await held()
  const comeBack = takeAway()
  const [job] = far as [ClaimedJob]
  let isOver = false
  const part = [{ id: job.id, token: job.token, progress: '7', logs: undefined }]
  const written = store.extend({ worker: 'worker', lease, held: part }).finally(() => {
    isOver = true
  })
  await extend(store, [])
  expect(isOver).toBe(false)
  comeBack()
  expect(await written).toMatchObject({ lost: [] })
  expect((await store.get([job.id]))[0]?.progress).toBe('7')
})

test('a sweep tells what the others have found', async () => {
  const store = spread(await openStore({ shards: 3 }))
  await insertMany(store, 30, { delay: 1 })
  const comeBack = takeAway()
  const report = await store.sweep({ limit: 100, keep: retention })
  expect(report.promoted).toBeGreaterThan(0)
  expect(report.promoted).toBeLessThan(30)
  comeBack()
  let { promoted } = report
  while (promoted < 30) promoted += (await store.sweep({ limit: 100, keep: retention })).promoted
  expect(promoted).toBe(30)
}, 30_000)
