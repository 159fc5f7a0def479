/** Many want to write at the desk: whoever is slower comes to its turn too. */
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import { configure } from '../../src/stores/ledger/configure.js'
import { insert } from '../../src/stores/ledger/insert.js'
import { sweep } from '../../src/stores/ledger/sweep.js'
import type { Connection } from '../../src/stores/redis/connection.js'
import { Desk } from '../../src/stores/redis/desk.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import type { Shard } from '../../src/stores/redis/shard.js'
import { claim } from '../../src/testing/conformance/helpers.js'
import { newJob } from '../new-job.js'
import { admin, freshPrefix, open, serverUrl } from './redis.js'

test('others that write whenever they can do so before each of its writes', async () => {
  const prefix = freshPrefix()
  const quick = new Desk(await open({ prefix }), 'quick', undefined, true)
  let writes = 0
  const connection = await open({ prefix })
  const run: Shard['run'] = async (script, args, effort) => {
    if (script === scripts.write) {
      writes++
      await Promise.race([pause(quick, `quick-${writes}`), wait(20)])
    }
    return connection.run(script, args, effort)
  }
  await pause(new Desk({ run } as Connection, 'slow', undefined, true), 'slow')
  expect(writes).toBeLessThan(10)
  await pause(quick, 'afterwards')
})

test('a worker that claims while it is being forgotten is not', async () => {
  const prefix = freshPrefix()
  const store = new RedisStore({ url: serverUrl(), prefix, warn: false })
  onTestFinished(() => store.close())
  await store.open()
  await store.insert([newJob({ id: 'one' })])
  await store.extend({ worker: 'late', lease: 1, held: [] })
  await wait(5)
  const connection = await open({ prefix })
  const run: Shard['run'] = async (script, args, effort) => {
    if (script === scripts.write)
      expect(await claim(store, 1, { worker: 'late', leaseMs: 1 })).toHaveLength(1)
    return connection.run(script, args, effort)
  }
  const desk = new Desk({ run } as Connection, 'sweeper', undefined, true)
  await desk.work((tables) => sweep(tables, { limit: 100, keep: { completed: 0, dead: 0 } }))
  const claims = await admin((redis) => redis.smembers(`{${prefix}:0}:w:late`))
  expect(claims).toHaveLength(1)
})

test('a server that forgot which numbers it gave has the jobs get others', async () => {
  const prefix = freshPrefix()
  const store = new RedisStore({ url: serverUrl(), prefix, warn: false })
  onTestFinished(() => store.close())
  await store.open()
  await store.insert([newJob({ id: 'first' })])
  const connection = await open({ prefix })
  let writes = 0
  const run: Shard['run'] = async (script, args, effort) => {
    if (script === scripts.write && writes++ === 0) {
      // As after a failover to a replica that was behind: others get the same numbers.
      await admin((redis) => redis.hset(`{${prefix}:0}`, 'seq', 1))
      await admin((redis) => redis.del(`{${prefix}:0}:mark:writer`))
      await store.insert([newJob({ id: 'other' })])
    }
    return connection.run(script, args, effort)
  }
  const desk = new Desk({ run } as Connection, 'writer', undefined, true)
  await desk.work((tables, now) => insert(tables, [newJob({ id: 'mine' })], now))
  expect(writes).toBe(2)
  const jobs = await claim(store, 10)
  expect(jobs.map(({ id }) => id)).toEqual(['first', 'other', 'mine'])
  expect(new Set(jobs.map(({ token }) => token.split('.')[0])).size).toBe(3)
})

function pause(desk: Desk, queue: string): Promise<unknown> {
  return desk.work((tables, now) => configure(tables, { queue, paused: true }, now))
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
