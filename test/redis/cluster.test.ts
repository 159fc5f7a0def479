/** A cluster whose masters change and whose slots move: scripts wait, and none runs on half of the data. */
import { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Connection } from '../../src/stores/redis/connection.js'
import { Listener } from '../../src/stores/redis/listener.js'
import { makeScript } from '../../src/stores/redis/script.js'
import { type RedisCluster, startRedisCluster } from '../servers/redis-cluster.js'
import { viewOf } from '../servers/redis-cluster-view.js'
import { ask } from '../servers/redis-process.js'
import { codeOf, errorOf, freshPrefix, open, scripts, signal } from './redis.js'

let cluster: RedisCluster
let url: string

beforeAll(async () => {
  cluster = await startRedisCluster()
  url = `redis+cluster://${cluster.addresses.map(({ host, port }) => `${host}:${port}`).join()}`
}, 60_000)

afterAll(() => cluster.stop())

test('shards are found wherever they are', async () => {
  const prefix = freshPrefix()
  for (let shard = 0; shard < 5; shard++) {
    const connection = await open({ url, prefix }, shard)
    expect(await connection.run(scripts.add, [])).toBe(1)
  }
})

test('a cluster of the caller gives its settings, and is left alone', async () => {
  const client = new Cluster([...cluster.addresses], { lazyConnect: true, keyPrefix: 'theirs:' })
  onTestFinished(() => client.disconnect())
  const connection = await open({ client })
  expect(await connection.run(scripts.add, [])).toBe(1)
  expect(client.status).toBe('wait')
})

test('one node alone is refused with advice', async () => {
  const { base } = (await open({ url, prefix: 'alone' })).shard
  const { port } = await cluster.replicaOf(await cluster.masterOf(base))
  const error = await errorOf(open({ url: `redis://127.0.0.1:${port}`, prefix: 'alone' }))
  expect(error).toMatchObject({ code: 'STORE_REFUSED', message: expect.stringContaining('redis+cluster://') })
})

describe('scripts and the listener go on', () => {
  test('after a failover', async () => {
    const connection = await open({ url })
    const listener = await listen(connection)
    const writer = writing(connection)
    await writer.some()
    await cluster.failover(connection.shard.base)
    await writer.some()
    expect(await writer.lost()).toEqual([])
    await listener.hears('mail')
  })

  test('after a master was killed', async () => {
    const connection = await open({ url })
    const listener = await listen(connection)
    const master = await cluster.masterOf(connection.shard.base)
    const writer = writing(connection)
    await writer.some()
    await master.kill()
    await writer.some()
    await writer.stop()
    await listener.hears('mail')
    await master.start()
    await cluster.settled()
  })

  test('after a slot was moved', async () => {
    const connection = await open({ url })
    const listener = await listen(connection)
    const { base } = connection.shard
    const source = await cluster.masterOf(base)
    const writer = writing(connection)
    await writer.some()
    await cluster.moveSlot(await cluster.slotOf(base), await anotherMaster(source.port))
    await writer.some()
    expect(await writer.lost()).toEqual([])
    await listener.hears('mail')
  })
})

test('while a slot is being moved, no script runs on either side', async () => {
  const connection = await open({ url, durability: { wait: 1 } })
  const { base } = connection.shard
  const both = makeScript(
    'both',
    "redis.call('INCR', KEYS[1] .. ':a') redis.call('INCR', KEYS[1] .. ':b') return redis.call('INCR', KEYS[1] .. ':calls')",
  )
  await connection.run(both, [])
  const [slot, source] = [await cluster.slotOf(base), await cluster.masterOf(base)]
  const target = await anotherMaster(source.port)
  await ask(target, async (redis) =>
    redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await idOf(source.port)),
  )
  await ask(source.port, async (redis) =>
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', await idOf(target)),
  )
  // Nothing, a key, another key, and the one that every script names have been moved.
  const waiting: Promise<unknown>[] = []
  for (const key of [undefined, `${base}:a`, base, `${base}:b`, `${base}:calls`]) {
    if (key !== undefined)
      await ask(source.port, (redis) => redis.call('MIGRATE', '127.0.0.1', target, key, 0, 5_000))
    const error = await errorOf(connection.run(both, [], { patience: 1 }))
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', message: expect.stringMatching(/TRYAGAIN|ASK/) })
    waiting.push(connection.run(both, []))
  }
  await cluster.moveSlot(slot, target)
  await Promise.all(waiting)
  const values = await ask(target, (redis) => redis.mget(`${base}:a`, `${base}:b`, `${base}:calls`))
  expect(values).toEqual(['6', '6', '6'])
  expect(await codeOf(connection.run(both, []))).toBe('ok')
})

async function listen(connection: Connection) {
  const { base } = connection.shard
  let heard = signal<string>()
  const listener = new Listener({
    shard: connection.shard,
    key: `${base}:inbox`,
    heartbeat: 500,
    onMessage: (text) => heard.resolve(text),
    onGap: () => {},
  })
  onTestFinished(() => listener.stop())
  await listener.start()
  return {
    hears: async (text: string) => {
      heard = signal()
      await connection.run(scripts.push, [`${base}:inbox`, text])
      expect(await heard.promise).toBe(text)
    },
  }
}

/** Writes one name after the other, until it is stopped. */
function writing(connection: Connection) {
  const written: string[] = []
  let stopped = false
  let more = signal()
  const work = (async () => {
    for (let i = 0; !stopped; i++) {
      await connection.run(scripts.once, [i])
      written.push(String(i))
      if (written.length % 20 === 0) more.resolve()
    }
  })()
  const stop = async () => {
    stopped = true
    await work
  }
  onTestFinished(stop)
  return {
    stop,
    some: () => {
      more = signal()
      return Promise.race([more.promise, work])
    },
    lost: async () => {
      await stop()
      const kept = new Set((await connection.run(scripts.names, [])) as string[])
      return written.filter((name) => !kept.has(name))
    },
  }
}

async function anotherMaster(port: number): Promise<number> {
  const view = await viewOf(port)
  const other = view.find((node) => node.isMaster && !node.isMyself && node.slots.length > 0)
  return other?.port ?? 0
}

async function idOf(port: number): Promise<string> {
  return (await viewOf(port)).find((node) => node.isMyself)?.id ?? ''
}
