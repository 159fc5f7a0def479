/** What is wrong with how a store is set up is said in words that help, and show no secret. */
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { Cluster, Redis } from 'ioredis'
import { RedisStore } from 'millrace/redis'
import { expect, onTestFinished, test } from 'vitest'
import { newJob } from '../new-job.js'
import { startOwnRedis } from '../servers/redis.js'
import { startRedisCluster } from '../servers/redis-cluster.js'
import { ask } from '../servers/redis-process.js'
import { codeOf, errorOf, freshPrefix, open, scripts, serverUrl } from './redis.js'

test('a client whose keyPrefix keeps applications apart needs a prefix of ours too', () => {
  const client = new Redis(serverUrl(), { lazyConnect: true, keyPrefix: 'app1:' })
  expect(() => new RedisStore({ client })).toThrow(/client.options.keyPrefix is "app1:".*say prefix/)
  expect(() => new RedisStore({ client, prefix: 'app1' })).not.toThrow()
})

test('a client of another driver', async () => {
  const client = { options: { password: 's3cret' }, duplicate: () => {}, isCluster: false }
  expect(() => new RedisStore({ client })).toThrow(/a Redis or a Cluster of ioredis/)
  const url = 'redis://:s3cret@host' as unknown as Redis
  for (const given of [client, url]) {
    const error = await errorOf((async () => new RedisStore({ client: given }))())
    expect(inspect(error, { depth: 5 })).not.toContain('s3cret')
  }
})

test('a URL that is none is not shown', () => {
  for (const url of ['redis://user:p@ss@host', 'http://user:s3cret@host', 'redis://host:99999'])
    expect(() => new RedisStore({ url })).toThrow(/^url is not right \(it is not shown here\)/)
  expect(() => new RedisStore({ url: 'redis://host', client: new Redis({ lazyConnect: true }) })).toThrow(
    /either it or client/,
  )
})

test('what answers is no Redis server', async () => {
  const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  const error = await errorOf(open({ url: `redis://127.0.0.1:${port}` }))
  expect(error).toMatchObject({ code: 'STORE_REFUSED', message: expect.stringContaining('no Redis server') })
})

test('no error carries a password or the input of a job', async () => {
  const server = await startOwnRedis({ settings: { requirepass: 'right', 'maxmemory-policy': 'noeviction' } })
  onTestFinished(() => server.stop())
  const { host, port } = server
  const wrong = await errorOf(open({ url: `redis://:hunter3@${host}:${port}` }))
  expect(inspect(wrong, { depth: 20, showHidden: true })).not.toContain('hunter3')
  const store = new RedisStore({ url: server.url, prefix: freshPrefix(), warn: false })
  onTestFinished(() => store.close())
  await store.open()
  await ask(port, (redis) => redis.config('SET', 'maxmemory', 1), 'right')
  const full = await errorOf(store.insert([newJob({ id: 'one', input: '{"card":"4111-1111"}' })]))
  expect(full).toMatchObject({ code: 'STORE_FULL' })
  expect(inspect(full, { depth: 20, showHidden: true })).not.toContain('4111')
})

test('too few replicas are told of, with the usual timeout and when the store opens', async () => {
  const connection = await open({ durability: { wait: 1 }, patience: 0 })
  expect(connection.warnings).toContainEqual(
    expect.stringMatching(/has 0 replicas and durability waits for 1/),
  )
  const error = await errorOf(connection.run(scripts.once, ['x'], { patience: 200 }))
  expect(error).toMatchObject({
    code: 'STORE_UNAVAILABLE',
    message: expect.stringContaining('0 of 1 replicas'),
  })
})

test('a cluster whose first nodes bring their password', async () => {
  const cluster = await startRedisCluster()
  onTestFinished(() => cluster.stop())
  for (const { port } of cluster.addresses)
    await ask(port, (redis) => redis.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all'))
  const [{ host, port }] = cluster.addresses as [{ host: string; port: number }]
  for (const node of [
    `redis://app:secret@${host}:${port}`,
    { host, port, username: 'app', password: 'secret' },
  ]) {
    const client = new Cluster([node], { lazyConnect: true })
    for (let shard = 0; shard < 4; shard++) {
      const connection = await open({ client }, shard)
      expect(await connection.run(scripts.add, [])).toBe(1)
    }
  }
}, 60_000)

test('a server that was emptied is still spread over as many shards', async () => {
  const server = await startOwnRedis()
  onTestFinished(() => server.stop())
  const prefix = freshPrefix()
  const store = new RedisStore({ url: server.url, prefix, shards: 4, warn: false })
  onTestFinished(() => store.close())
  await store.open()
  await ask(server.port, (redis) => redis.flushall())
  await store.insert(['one', 'two', 'three', 'four'].map((id) => newJob({ id })))
  expect(await codeOf(open({ url: server.url, prefix, shards: 1 }))).toBe('STORE_REFUSED')
})

test('a store that is closed while it opens, and one that is opened again', async () => {
  const absent = new RedisStore({ url: 'redis://127.0.0.1:1', patience: '1h' })
  const opening = codeOf(absent.open())
  await absent.close()
  expect(await opening).toBe('CLOSED')
  for (const shards of [1, 3]) {
    const store = new RedisStore({ url: serverUrl(), prefix: freshPrefix(), warn: false, shards })
    onTestFinished(() => store.close())
    await store.open()
    await store.close()
    await store.open()
    expect(await store.insert([newJob({ id: 'one' })])).toMatchObject([{ status: 'inserted' }])
  }
})
