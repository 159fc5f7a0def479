/** A server without memory takes no new jobs, and those that it has come to their ends. */
import { defineJob, Millrace, NonRetryableError } from 'millrace'
import { RedisStore } from 'millrace/redis'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { claim } from '../../src/testing/conformance/helpers.js'
import { newJob } from '../new-job.js'
import { type RedisServer, startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { codeOf, freshPrefix, signal } from './redis.js'

let server: RedisServer

beforeAll(async () => {
  server = await startOwnRedis()
})

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
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '1mb'))
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

test('who was refused a place among those that wait asks again', async () => {
  const prefix = freshPrefix()
  const other = storeOf(prefix)
  onTestFinished(() => other.close())
  await other.open()
  await ask(server.port, (redis) => redis.config('SET', 'maxmemory', '1mb'))
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
