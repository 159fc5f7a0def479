/** What workers without work ask of the server, and that it costs nobody anything. */

import { RedisStore } from 'millrace/redis'
import { VirtualClock } from 'millrace/testing'
import { expect, onTestFinished, test } from 'vitest'
import { claim } from '../../src/testing/conformance/helpers.js'
import { newJob } from '../new-job.js'
import { startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { openStore } from './redis.js'

const lease = 30_000
const inventory = { leaving: [], claiming: [] }
const keep = { completed: 0, dead: 0 }

test('an idle worker asks a few short questions, and not again while nothing happens', async () => {
  const server = await startOwnRedis()
  onTestFinished(() => server.stop())
  const store = new RedisStore({ url: server.url, warn: false })
  onTestFinished(() => store.close())
  await store.open()
  const commands = () =>
    ask(server.port, async (redis) => {
      const stats = await redis.info('commandstats')
      await redis.config('RESETSTAT')
      // Those of this question are left out.
      const counts = stats.matchAll(/cmdstat_(?!info|config|hello|client)[^:]+:calls=(\d+)/g)
      return [...counts].reduce((sum, [, calls]) => sum + Number(calls), 0)
    })
  const idle = async () => {
    await claim(store)
    await store.extend({ worker: 'worker', lease, held: [], inventory })
    await store.sweep({ limit: 100, keep, every: 1_000 })
  }
  await idle() // the first time the server is given the scripts
  await store.insert([newJob({ id: 'later', delay: 1 })])
  await store.operate({ filter: { state: 'scheduled' }, limit: 1, cursor: undefined }, { do: 'remove' })
  await commands()
  await idle()
  const first = await commands()
  expect(first).toBeLessThanOrEqual(20)
  await idle()
  expect(await commands()).toBe(0)
})

test('a worker that was idle has its jobs for one lease', async () => {
  const clock = new VirtualClock()
  const store = await openStore({ clock })
  await store.extend({ worker: 'worker', lease, held: [], inventory })
  await store.insert([newJob({ id: 'one', queue: 'main' })])
  expect(await claim(store, 1, { leaseMs: lease })).toHaveLength(1)
  await clock.advance(lease + 1)
  const { orphans } = await store.sweep({ limit: 100, keep })
  expect(orphans.map(({ id }) => id)).toEqual(['one'])
})

test('a worker without jobs hears of those that are under its lease all the same', async () => {
  const clock = new VirtualClock()
  const store = await openStore({ clock })
  await store.insert([newJob({ id: 'one', queue: 'main' })])
  await claim(store, 1, { leaseMs: lease })
  await clock.advance(lease)
  const { strays } = await store.extend({ worker: 'worker', lease, held: [], inventory })
  expect(strays.map(({ id }) => id)).toEqual(['one'])
})
