/** Who must have a write before it is acknowledged, and what the server may lose. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { openConnection } from '../../src/stores/redis/connection.js'
import { compileOptions } from '../../src/stores/redis/options.js'
import { startProxy } from '../servers/proxy.js'
import { type RedisServer, type RedisServerOptions, startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { codeOf, errorOf, freshPrefix, open, scripts } from './redis.js'

describe('wait', () => {
  test('for a replica that is there', async () => {
    const { primary, replica } = await pair()
    const connection = await open({ url: primary.url, durability: { wait: 1 } })
    const writes = Array.from({ length: 20 }, (_, i) => connection.run(scripts.once, [i]))
    expect(await Promise.all(writes)).toEqual(writes.map(() => 1))
    const key = `${connection.shard.base}:names`
    expect(await ask(replica.port, (redis) => redis.scard(key))).toBe(20)
    await ask(primary.port, (redis) => redis.script('FLUSH'))
    expect(await connection.run(scripts.once, ['after'])).toBe(1)
  })

  test('for one that is missing: it is told that the write is there but not safe', async () => {
    const { primary, replica } = await pair()
    const durability = { wait: 1, timeout: 20 }
    const connection = await open({ url: primary.url, durability, patience: 200 })
    await replica.kill()
    const error = await errorOf(connection.run(scripts.once, ['name']))
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(error.message).toContain('the write is there')
    expect(error.message).toContain('0 of 1 replicas')
    expect(await connection.run(scripts.names, [], { durable: false })).toEqual(['name'])
  })

  test('for one that comes back in time', async () => {
    const { primary, replica } = await pair()
    const connection = await open({ url: primary.url, durability: { wait: 1, timeout: 50 } })
    await replica.kill()
    const waiting = connection.run(scripts.once, ['name'])
    await replica.start()
    expect(await waiting).toBeLessThanOrEqual(1)
    expect(await ask(replica.port, (redis) => redis.smembers(`${connection.shard.base}:names`))).toEqual([
      'name',
    ])
  })

  test('for what somebody else wrote before, when it is asked for again', async () => {
    const primary = await start()
    const network = await startProxy(primary.url)
    onTestFinished(() => network.close())
    const replica = await start({ replicaOf: network })
    await inSync(primary)
    const prefix = freshPrefix()
    const hasty = await open({ url: primary.url, prefix })
    const safe = await open({ url: primary.url, prefix, durability: { wait: 1, timeout: 50 }, patience: 200 })
    network.blackHole() // the replica is still there, and hears nothing
    await hasty.run(scripts.once, ['name'])
    expect(await codeOf(safe.run(scripts.once, ['name']))).toBe('STORE_UNAVAILABLE')
    await ask(replica.port, (redis) => redis.replicaof('127.0.0.1', primary.port))
    await inSync(primary)
    expect(await safe.run(scripts.once, ['name'])).toBe(0)
  })

  test('in a server without memory', async () => {
    const { primary } = await pair()
    const connection = await open({ url: primary.url, durability: { wait: 1 } })
    await connection.run(scripts.once, ['name'])
    await ask(primary.port, (redis) => redis.config('SET', 'maxmemory', '1mb'))
    expect(await connection.run(scripts.clear, [])).toBe(1)
  })
})

describe('a server is refused', () => {
  test('that throws keys away', async () => {
    const server = await start({ settings: { 'maxmemory-policy': 'allkeys-lru' } })
    expect(await errorOf(open({ url: server.url }))).toMatchObject({
      code: 'STORE_REFUSED',
      field: 'maxmemory-policy',
      value: 'allkeys-lru',
    })
  })

  test('that does not know what durability asks for', async () => {
    const server = await start()
    const durability = { waitaof: { local: 1, replicas: 0 } } as const
    expect(await errorOf(open({ url: server.url, durability }))).toMatchObject({
      code: 'STORE_REFUSED',
      message: expect.stringMatching(/7\.2|appendonly/),
    })
  })
})

describe('what a server may lose is told', () => {
  test.each<[string, RedisServerOptions, RegExp[]]>([
    ['nothing', { appendfsync: 'always' }, []],
    ['a second', { appendfsync: 'everysec' }, [/about one second, up to two/]],
    ['half a minute', { appendfsync: 'no' }, [/half a minute/]],
    ['minutes', { settings: { save: '3600 1' } }, [/since the last one/]],
    ['everything', {}, [/everything since the start/]],
  ])('%s', async (_, options, expected) => {
    const server = await start(options)
    const { warnings } = await open({ url: server.url })
    expect(warnings).toEqual(expected.map((pattern) => expect.stringMatching(pattern)))
  })

  test('at a failover', async () => {
    const { primary } = await pair({ appendfsync: 'always' })
    expect((await open({ url: primary.url })).warnings).toEqual([expect.stringMatching(/lost at a failover/)])
    expect((await open({ url: primary.url, durability: { wait: 1 } })).warnings).toEqual([])
  })

  test('that forbids CONFIG', async () => {
    const server = await start({ appendfsync: 'always', settings: { 'rename-command': 'CONFIG ""' } })
    expect((await open({ url: server.url })).warnings).toEqual([
      expect.stringMatching(/^could not verify appendfsync/),
    ])
  })

  test('as a warning of the process, once each', async () => {
    const heard: (Error & { code?: string })[] = []
    const hear = (warning: Error) => heard.push(warning)
    process.on('warning', hear)
    onTestFinished(() => void process.off('warning', hear))
    const server = await start()
    const connection = await openConnection(compileOptions({ url: server.url }), 0)
    connection.close()
    await new Promise(setImmediate)
    expect(heard).toMatchObject([{ code: 'MILLRACE_REDIS_DURABILITY', message: connection.warnings[0] }])
  })
})

async function start(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = await startOwnRedis(options)
  onTestFinished(() => server.stop())
  return server
}

async function pair(options: RedisServerOptions = {}) {
  const primary = await start(options)
  const replica = await start({ ...options, replicaOf: primary })
  await inSync(primary)
  return { primary, replica }
}

/** A replica has come, and reads what is written. */
async function inSync({ port }: RedisServer): Promise<void> {
  await ask(port, async (redis) => {
    await redis.set('something', 1)
    await redis.wait(1, 0)
  })
}
