/** Many want to write at the desk: whoever is slower comes to its turn too. */
import { expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import { configure } from '../../src/stores/ledger/configure.js'
import { insert } from '../../src/stores/ledger/insert.js'
import { sweep } from '../../src/stores/ledger/sweep.js'
import { Desk } from '../../src/stores/redis/desk.js'
import { scripts } from '../../src/stores/redis/scripts.js'
import { claim } from '../../src/testing/conformance/helpers.js'
import { VirtualClock } from '../../src/testing/virtual-clock.js'
import { newJob } from '../new-job.js'
import { before, intercept, watchScripts } from './intercept.js'
import { admin, errorOf, freshPrefix, open, openStore, signal } from './redis.js'

test('others that write whenever they can do so before each of its writes', async () => {
  const prefix = freshPrefix()
  const quick = new Desk(await open({ prefix }), 'quick', undefined, true)
  const slow = await open({ prefix })
  let writes = 0
  let refused = signal()
  intercept((run, script, shard) => {
    if (script !== scripts.write) return run()
    if (shard !== slow.shard)
      return run().catch((error) => {
        refused.resolve()
        throw error
      })
    writes++
    refused = signal()
    return Promise.race([pause(quick, `quick-${writes}`), refused.promise]).then(run)
  })
  await pause(new Desk(slow, 'slow', undefined, true), 'slow')
  expect(writes).toBeGreaterThan(1)
  expect(writes).toBeLessThan(10)
  await pause(quick, 'afterwards')
})

test('a worker that claims while it is being forgotten is not', async () => {
  const prefix = freshPrefix()
  const clock = new VirtualClock()
  const store = await openStore({ prefix, clock })
  await store.insert([newJob({ id: 'one' })])
  await store.extend({ worker: 'late', lease: 1, held: [] })
  clock.jump(2)
  const desk = new Desk(await open({ prefix }), 'sweeper', clock, true)
  const claimed = signal<readonly ClaimedJob[]>()
  before(scripts.write, async () => claimed.resolve(await claim(store, 1, { worker: 'late', leaseMs: 1 })))
  await desk.work((tables) => sweep(tables, { limit: 100, keep: { completed: 0, dead: 0 } }))
  expect(await claimed.promise).toHaveLength(1)
  expect(await admin((redis) => redis.smembers(`{${prefix}:0}:w:late`))).toHaveLength(1)
})

test('a server that forgot which numbers it gave has the jobs get others', async () => {
  const prefix = freshPrefix()
  const store = await openStore({ prefix })
  await store.insert([newJob({ id: 'first' })])
  before(scripts.write, async () => {
    // As after a failover to a replica that was behind: others get the same numbers.
    await admin((redis) => redis.hset(`{${prefix}:0}`, 'seq', 1))
    await admin((redis) => redis.del(`{${prefix}:0}:mark:writer`))
    await store.insert([newJob({ id: 'other' })])
  })
  const names = watchScripts()
  const desk = new Desk(await open({ prefix }), 'writer', undefined, true)
  await desk.work((tables, now) => insert(tables, [newJob({ id: 'mine' })], now))
  expect(names.filter((name) => name === 'write')).toHaveLength(2)
  const jobs = await claim(store, 10)
  expect(jobs.map(({ id }) => id)).toEqual(['first', 'other', 'mine'])
  expect(new Set(jobs.map(({ token }) => token.split('.')[0])).size).toBe(3)
})

function pause(desk: Desk, queue: string): Promise<unknown> {
  return desk.work((tables, now) => configure(tables, { queue, paused: true }, now))
}

test('what nobody knows is refused as a whole', async () => {
  const prefix = freshPrefix()
  const connection = await open({ prefix })
  const deeds = ['call', 3, 'SET', 'written', '1', 'nonsense', 0]
  const error = await errorOf(connection.run(scripts.write, ['none', 'commit', 'ear', '', ...deeds]))
  expect(error.message).toContain('MRUNKNOWN there is nothing called nonsense')
  expect(await admin((redis) => redis.exists(`{${prefix}:0}:written`))).toBe(0)
})
