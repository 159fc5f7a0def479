/** The servers that tests of Redis stand on: they can be killed, fail over and move what they have. */
import { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startOwnRedis } from '../servers/redis.js'
import { type RedisCluster, startRedisCluster } from '../servers/redis-cluster.js'
import { ask } from '../servers/redis-process.js'
import { startRedisSentinel } from '../servers/redis-sentinel.js'

describe('one server', () => {
  test('keeps what it acknowledged when it is killed, with its log flushed always', async () => {
    const server = await startOwnRedis({ appendfsync: 'always' })
    onTestFinished(() => server.stop())
    for (let round = 1; round <= 3; round++) {
      const count = await ask(server.port, async (redis) => {
        await Promise.all(Array.from({ length: 500 }, () => redis.incr('count')))
        return redis.get('count')
      })
      expect(count).toBe(String(500 * round))
      await server.kill()
      expect(server.running).toBe(false)
      await expect(ask(server.port, (redis) => redis.ping())).rejects.toThrow()
      await server.start()
      expect(await ask(server.port, (redis) => redis.get('count'))).toBe(count)
    }
  })

  test('forgets everything when it is killed without a log', async () => {
    const server = await startOwnRedis()
    onTestFinished(() => server.stop())
    await ask(server.port, (redis) => redis.set('key', 'value'))
    await server.kill()
    await server.start()
    expect(await ask(server.port, (redis) => redis.dbsize())).toBe(0)
  })

  test('has the settings that it was given', async () => {
    const server = await startOwnRedis({ settings: { maxmemory: '50mb', requirepass: 'secret' } })
    onTestFinished(() => server.stop())
    await expect(ask(server.port, (redis) => redis.dbsize())).rejects.toThrow()
    const [memory, policy] = await ask(
      server.port,
      (redis) => Promise.all([redis.config('GET', 'maxmemory'), redis.config('GET', 'maxmemory-policy')]),
      'secret',
    )
    expect(memory).toEqual(['maxmemory', String(50 * 2 ** 20)])
    expect(policy).toEqual(['maxmemory-policy', 'noeviction'])
    expect(server.url).toContain(':secret@')
  })
})

test('sentinels make a replica the primary when the old one is killed', async () => {
  const trio = await startRedisSentinel()
  onTestFinished(() => trio.stop())
  const old = await trio.primary()
  expect(old).toBe(trio.servers[0])
  await ask(old.port, async (redis) => {
    await redis.set('key', 'value')
    await redis.wait(2, 5_000)
  })
  const next = await trio.afterSwitch(() => old.kill())
  expect(next).not.toBe(old)
  expect(await trio.primary()).toBe(next)
  expect(await ask(next.port, (redis) => redis.get('key'))).toBe('value')
  expect(await ask(next.port, (redis) => redis.set('key', 'other'))).toBe('OK')
  expect(await trio.replicas()).toContain(old)
})

describe('a cluster', () => {
  let cluster: RedisCluster
  let client: Cluster

  beforeAll(async () => {
    cluster = await startRedisCluster()
    client = new Cluster([...cluster.addresses])
  })
  afterAll(async () => {
    client.disconnect()
    await cluster.stop()
  })

  test('fails over to a replica, on request', async () => {
    await client.set('{a}1', 'before')
    const old = await cluster.masterOf('{a}')
    const replica = await cluster.replicaOf(old)
    expect(await cluster.failover('{a}')).toBe(replica)
    expect(await cluster.masterOf('{a}')).toBe(replica)
    expect(await cluster.replicaOf(replica)).toBe(old)
    expect(await client.get('{a}1')).toBe('before')
  })

  test('moves a slot under load, and no write is lost', async () => {
    const keys = Array.from({ length: 1_000 }, (_, n) => `{b}${n}`)
    await Promise.all(keys.map((key) => client.set(key, 0)))
    const slot = await cluster.slotOf('{b}')
    const old = await cluster.masterOf(slot)
    const others = await Promise.all(['{a}', '{c}', '{d}', '{e}'].map(cluster.masterOf))
    const next = others.find((master) => master !== old)
    let moving = true
    let written = 0
    const load = async () => {
      for (; moving; written += keys.length) await Promise.all(keys.map((key) => client.incr(key)))
    }
    const loading = load()
    await cluster.moveSlot(slot, next?.port ?? 0)
    moving = false
    await loading
    expect(await cluster.masterOf(slot)).toBe(next)
    expect(await ask(old.port, (redis) => redis.call('CLUSTER', 'COUNTKEYSINSLOT', slot))).toBe(0)
    const values = await Promise.all(keys.map((key) => client.get(key)))
    expect(written).toBeGreaterThan(0)
    expect(values.reduce((sum, value) => sum + Number(value), 0)).toBe(written)
  })

  test('a replica takes over from a master that is killed, and has it as its replica', async () => {
    await client.set('{a}2', 'kept')
    const old = await cluster.masterOf('{a}')
    await ask(old.port, (redis) => redis.wait(1, 5_000))
    await old.kill()
    const next = await cluster.masterOf('{a}')
    expect(next).not.toBe(old)
    await cluster.settled()
    expect(await client.get('{a}2')).toBe('kept')
    await old.start()
    expect(await cluster.replicaOf(next)).toBe(old)
    await cluster.settled()
  })
})
