/** What the chaos harness looks for in a store that has been through a lot: all of it is found. */
import type { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { childOf, parent } from '../../src/testing/conformance/family-jobs.js'
import { claim, complete, insertMany, insertOne, settle } from '../../src/testing/conformance/helpers.js'
import { choose, completeAll, inGroup, queueGate } from '../../src/testing/conformance/traffic-helpers.js'
import { damageOf } from '../chaos/redis-damage.js'
import { admin, freshPrefix, openStore } from './redis.js'

type Key = (name: string) => string

test('a store with jobs of all sorts is whole, and so is one whose jobs are done', async () => {
  const { store, root } = await openFull()
  const marks = await admin(async (redis) => {
    const entries = await redis.lrange(await only(redis, `${root}:line:*:family`), 0, -1)
    const tagged = await redis.lrange(await only(redis, `${root}:line:*:main`), 0, -1)
    const tokens = await redis.hvals(`${root}:running`)
    return [...entries, ...tagged, ...tokens].flatMap((text) => /[*+~]/.exec(text) ?? '')
  })
  expect(marks).toEqual(expect.arrayContaining(['', '*', '+', '~']))
  expect(await damage(root)).toBe('ok')
  for (const queue of ['main', 'limited', 'family']) await doAll(store, queue)
  expect(await damage(root)).toBe('ok')
})

const harms: [what: string, harm: (redis: Redis, key: Key) => Promise<unknown>, found: RegExp][] = [
  [
    'a job in two places',
    async (redis, key) => redis.zadd(key('back:1:main'), 0, await anyOf(redis, key('running'))),
    /is in .* and .*/,
  ],
  [
    'an entry of no job',
    (redis, key) => redis.rpush(key('line:1:main'), '00000000fff=000=======nobody*'),
    /there is no such job/,
  ],
  [
    'a child that is in no line',
    async (redis, key) => redis.rpop(await only(redis, key('line:*:family'))),
    /is in no place/,
  ],
  [
    'one that runs under the claim of another',
    async (redis, key) => redis.hset(key('running'), await anyOf(redis, key('running')), 'other~5'),
    /claim other of undefined has 1 jobs/,
  ],
  [
    'a wrong number of jobs',
    (redis, key) => redis.hincrby(key('c:1'), 'pending', 1),
    /kind 1 has \d+ pending, and counts/,
  ],
  [
    'one that waits in no place',
    async (redis, key) => redis.hset(key('waits'), 'ticket', '3;1;0;0;'),
    /stands in no place and waits in 3/,
  ],
  [
    'one in a place that is not known to wait',
    async (redis, key) => redis.hdel(key('waits'), await anyOf(redis, key('waits'))),
    /stands in \d+ and waits in none/,
  ],
  [
    'one that waits in another place',
    async (redis, key) => redis.hset(key('waits'), await anyOf(redis, key('waits')), '99;1;0;0;'),
    /stands in \d+ and waits in 99/,
  ],
  [
    'a group without jobs',
    (redis, key) => redis.hset(key('tallies'), '77', Buffer.alloc(28)),
    /group 77 has 0 and 0 jobs, and counts 0 and 0/,
  ],
  [
    'a group that counts jobs which have gone',
    async (redis, key) => {
      const [num, tally] = (await anyTally(redis, key('tallies'))) as [string, Buffer]
      tally.writeUInt32BE(tally.readUInt32BE(0) + 1, 0)
      await redis.hset(key('tallies'), num, tally)
    },
    /group \d+ has \d and \d jobs, and counts/,
  ],
  [
    'a group that does not count what runs',
    async (redis, key) => {
      const runs = Object.entries(await redis.hgetall(key('running')))
      const [ticket, value] = runs.find(([, text]) => text.includes('~')) as [string, string]
      await redis.hset(key('running'), ticket, value.replace(/~.*$/, '~77'))
    },
    /group \d+ has \d and 0 jobs, and counts \d and 1/,
  ],
  [
    'a child that ended and is waited for',
    async (redis, key) => {
      const links = await only(redis, key('link:*'))
      const all = Object.entries(await redis.hgetall(links))
      const [child, link] = all.find(([, text]) => text.startsWith(';')) as [string, string]
      await redis.hset(links, child, `5${link}`)
    },
    /waits for 2 of 3, and has links to 1 of 3/,
  ],
  [
    'a child that a parent has lost',
    async (redis, key) => {
      const links = await only(redis, key('link:*'))
      await redis.hdel(links, await anyOf(redis, links))
    },
    /waits for 2 of 3, and has links to \d of 2/,
  ],
  ['children of no parent', (redis, key) => redis.del(key('parents')), /has 3 children, and is no parent/],
  [
    'a mark of one that is in no list',
    (redis, key) => redis.sadd(key('gone'), 'ticket'),
    /ticket is gone from no list/,
  ],
]

test.each(harms)('%s: is found', async (_, harm, found) => {
  const { root } = await openFull()
  await admin((redis) => harm(redis, (name) => `${root}:${name}`))
  expect(await damage(root)).toMatch(found)
})

/** With plain jobs, groups and a family, some of which run, and one that has left the middle of its line. */
async function openFull() {
  const prefix = freshPrefix()
  const store = await openStore({ prefix })
  const [, second] = await insertMany(store, 4)
  await store.operate({ ids: [second as string] }, { do: 'cancel', reason: 'because', retain: 60_000 })
  await insertOne(store, { tags: ['blue'] })
  await choose(store, queueGate('limited'), { limit: { concurrency: 100 } })
  for (const group of ['first', 'a', 'a', 'b', 'b'])
    await insertOne(store, { queue: 'limited', traffic: inGroup(group) })
  await claim(store, 2, { queues: ['limited'] })
  const top = parent({ queue: 'family' })
  await store.insert([top, ...[1, 2, 3].map(() => childOf([top], { queue: 'family' }))])
  const [child] = await claim(store, 2, { queues: ['family'] })
  if (child !== undefined) await settle(store, child, complete('1'))
  return { store, root: `{${prefix}:0}` }
}

async function doAll(store: Store, queue: string): Promise<void> {
  const jobs = await claim(store, 50, { queues: [queue] })
  await completeAll(store, jobs)
  if (jobs.length > 0) await doAll(store, queue)
}

function damage(root: string): Promise<string> {
  return admin((redis) => damageOf(redis, root))
}

/** The key that fits. */
async function only(redis: Redis, pattern: string): Promise<string> {
  const keys = await redis.keys(pattern)
  expect(keys).toHaveLength(1)
  return keys[0] as string
}

async function anyTally(redis: Redis, hash: string): Promise<[string, Buffer] | undefined> {
  return Object.entries(await redis.hgetallBuffer(hash)).find(([num]) => num !== '')
}

/** A field of a hash that is no filler; see asTable in common.lua. */
async function anyOf(redis: Redis, hash: string): Promise<string> {
  return (await redis.hkeys(hash)).find((field) => field !== '') as string
}
