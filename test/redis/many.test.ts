/** Thousands at once: of jobs, of outcomes, of queues, and of processes that are no more. */
import { defineJob, Millrace } from 'millrace'
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import {
  claim,
  claimRequest,
  insertMany,
  insertOne,
  retryIn,
  statesOf,
} from '../../src/testing/conformance/helpers.js'
import { admin, freshPrefix, openStore, serverUrl } from './redis.js'

/** More than there is room for on the stack of a script. */
const many = 9_000

test('a worker is renewed, read and settled with as many jobs as it can have', async () => {
  const store = await openStore()
  const ids: string[] = []
  for (let i = 0; i < many; i += 1_000) ids.push(...(await insertMany(store, 1_000)))
  const jobs = []
  for (let i = 0; i < many; i += 1_000) jobs.push(...(await claim(store, 1_000)))
  expect(jobs).toHaveLength(many)
  const held = jobs.map(({ id, token }) => ({ id, token, progress: undefined, logs: undefined }))
  const inventory = { leaving: [], claiming: [] }
  const renewed = await store.extend({ worker: 'worker', lease: 10_000, held, inventory })
  expect(renewed).toMatchObject({ lost: [], strays: [] })
  expect((await store.get(ids)).filter((job) => job?.state === 'running')).toHaveLength(many)
  const settlements = jobs.map(({ id, token }) => ({
    id,
    token,
    outcome: retryIn(1_000),
    inserts: undefined,
  }))
  const { settled } = await store.exchange({ worker: 'worker', settlements, claim: undefined })
  expect(new Set(settled)).toEqual(new Set(['applied']))
  expect(await statesOf(store)).toMatchObject({ running: 0, retrying: many })
}, 60_000)

test('a worker of thousands of queues finds the one that has a job', async () => {
  const store = await openStore()
  const queues = Array.from({ length: 2_500 }, (_, i) => `queue-${i}`)
  const id = await insertOne(store, { queue: 'queue-2400' })
  const request = claimRequest(5, queues)
  const claims = { worker: 'worker', settlements: [], claim: request }
  expect((await store.exchange(claims)).claimed.map((job) => job.id)).toEqual([id])
})

test('processes that are no more are not woken instead of one that is', async () => {
  const prefix = freshPrefix()
  const base = `{${prefix}:0}`
  const started: string[] = []
  const job = defineJob<number>({ name: 'work', run: (_, { jobId }) => void started.push(jobId) })
  const open = () => {
    const mill = new Millrace({
      store: new RedisStore({ url: serverUrl(), prefix, warn: false }),
      jobs: [job],
    })
    onTestFinished(() => mill.close())
    return mill
  }
  const [mill, other] = [open(), open()]
  await mill.worker({ poll: '1h' }).start()
  // It is known to wait.
  await expect.poll(() => admin((redis) => redis.scard(`${base}:idle:default`))).toBe(1)
  // Left behind by those that were killed.
  const gone = Array.from({ length: 300 }, (_, i) => `gone-${i}`)
  await admin((redis) => redis.sadd(`${base}:idle:default`, ...gone))
  for (let i = 0; i < 3; i++) {
    const { id } = await other.enqueue(job, i)
    await expect.poll(() => started, { timeout: 5_000 }).toContain(id)
  }
  await mill.close()
  const left = await admin((redis) => redis.smembers(`${base}:idle:default`))
  expect(left.filter((ear) => !ear.startsWith('gone'))).toEqual([])
})
