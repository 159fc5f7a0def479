/** A server without memory takes no new jobs, and those that it has come to their ends. */
import { defineJob, Millrace, NonRetryableError } from 'millrace'
import { RedisStore } from 'millrace/redis'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import {
  claim,
  complete,
  die,
  insertMany,
  retryIn,
  settle,
  sweep,
} from '../../src/testing/conformance/helpers.js'
import {
  choose,
  completeAll,
  gated,
  inGroup,
  jobGate,
  queueGate,
} from '../../src/testing/conformance/traffic-helpers.js'
import { newJob } from '../new-job.js'
import { type RedisServer, startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { codeOf, freshPrefix, signal } from './redis.js'

let server: RedisServer

beforeAll(async () => {
  server = await startOwnRedis()
})

beforeEach(() => ask(server.port, (redis) => redis.config('SET', 'maxmemory', 0)))

afterAll(() => server.stop())

test('jobs complete, are retried and die in a full server; others are refused', async () => {
  const full = signal()
  const work = defineJob<{ fails?: number; dies?: boolean }>({
    name: 'work',
    maxAttempts: 3,
    backoff: { type: 'fixed', initialDelay: 1, jitter: 'none' },
    run: async ({ fails = 0, dies = false }, { attempt }) => {
      await full.promise
      if (dies) throw new NonRetryableError('it dies')
      if (attempt <= fails) throw new Error('it fails')
    },
  })
  const mill = new Millrace({ store: storeOf(freshPrefix()), jobs: [work] })
  onTestFinished(() => mill.close())
  await mill.enqueueMany(work, [{}, {}, { fails: 1 }, { dies: true }])
  const worker = mill.worker({ concurrency: 4, poll: 50 })
  const errors: unknown[] = []
  mill.on('error', ({ error }) => errors.push(error))
  const started = signal()
  mill.on('started', () => started.resolve())
  await worker.start()
  await started.promise
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '1kb'))
  full.resolve()
  await expect
    .poll(async () => (await mill.stats()).states, { timeout: 10_000 })
    .toMatchObject({
      completed: 3,
      dead: 1,
    })
  expect(errors).toEqual([])
  expect(await codeOf(mill.enqueue(work, {}))).toBe('STORE_FULL')
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', 0))
  expect(await codeOf(mill.enqueue(work, {}))).toBe('ok')
  await worker.stop()
})

describe.each(['queue', 'job', 'group'] as const)('limits of a %s that were lent', (of) => {
  test('let claims go on', async () => {
    const store = await openLent(of)
    await fill()
    expect(await claim(store, 2)).toHaveLength(2)
  })

  test('let jobs complete, die and be retried', async () => {
    const store = await openLent(of)
    const jobs = await claim(store, 3)
    await fill()
    for (const [i, outcome] of [complete(), die(), retryIn(1)].entries())
      expect(await settle(store, jobs[i] as ClaimedJob, outcome)).toBe('applied')
  })

  test('let jobs be cancelled', async () => {
    const store = await openLent(of)
    await fill()
    const selector = { filter: { state: 'pending' }, limit: 100 } as const
    const { affected } = await store.operate(selector, { do: 'cancel', reason: 'full', retain: 0 })
    expect(affected).toHaveLength(6)
    await sweep(store)
  })
})

test('who was refused a place among those that wait asks again', async () => {
  const prefix = freshPrefix()
  const other = storeOf(prefix)
  onTestFinished(() => other.close())
  await other.open()
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '1kb'))
  // Opened in the full server, so that nobody knows of it and nothing wakes it.
  const store = storeOf(prefix)
  onTestFinished(() => store.close())
  await store.open()
  expect(await claim(store)).toEqual([])
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', 0))
  await other.insert([newJob({ id: 'one', queue: 'main' })])
  expect(await claim(store)).toHaveLength(1)
})

function storeOf(prefix: string): RedisStore {
  return new RedisStore({ url: server.url, prefix, warn: false })
}

/** Six jobs wait that come under a limit, or have a group, which the fast path minds. */
async function openLent(of: 'queue' | 'job' | 'group'): Promise<Store> {
  const store = storeOf(freshPrefix())
  onTestFinished(() => store.close())
  await store.open()
  const gate = { queue: queueGate(), job: jobGate(), group: undefined }[of]
  const traffic = { queue: undefined, job: gated, group: inGroup('g') }[of]
  if (gate !== undefined) await choose(store, gate, { limit: { concurrency: 20 } })
  await insertMany(store, 2, { traffic })
  for (let i = 0; i < 2; i++) await completeAll(store, await claim(store, 1))
  await insertMany(store, 6, { traffic })
  return store
}

async function fill(): Promise<void> {
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '1kb'))
}
