/** Sentinels choose another primary: scripts and the listener find it. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Listener } from '../../src/stores/redis/listener.js'
import { startProxy } from '../servers/proxy.js'
import { ask } from '../servers/redis-process.js'
import { type RedisSentinel, startRedisSentinel } from '../servers/redis-sentinel.js'
import { open, scripts, signal } from './redis.js'

let trio: RedisSentinel
let url: string

beforeAll(async () => {
  trio = await startRedisSentinel()
  url = `redis+sentinel://${trio.addresses.map(({ host, port }) => `${host}:${port}`).join()}/${trio.masterName}`
}, 60_000)

afterAll(() => trio.stop())

test('a primary that was killed: calls go on with the promoted one', async () => {
  const connection = await open({ url, durability: { wait: 1 } })
  const key = `${connection.shard.base}:inbox`
  const heard = signal<string>()
  let gaps = 0
  const gap = signal()
  const listener = new Listener({
    shard: connection.shard,
    key,
    onMessage: heard.resolve,
    onGap: () => ++gaps > 1 && gap.resolve(),
  })
  onTestFinished(() => listener.stop())
  await listener.start()
  for (let i = 0; i < 20; i++) await connection.run(scripts.once, [i])
  const old = await trio.primary()
  let waiting: Promise<unknown> = Promise.resolve()
  const next = await trio.afterSwitch(async () => {
    await old.kill()
    waiting = connection.run(scripts.once, ['during'])
  })
  await waiting
  expect(await connection.run(scripts.count, [])).toBe(21)
  expect(await ask(next.port, (redis) => redis.scard(`${connection.shard.base}:names`))).toBe(21)
  await gap.promise
  await connection.run(scripts.push, [key, 'mail'])
  expect(await heard.promise).toBe('mail')
  await old.start()
})

test('a sentinel that is gone: the others are asked', async () => {
  const [first] = trio.sentinels
  await first?.kill()
  onTestFinished(() => first?.start())
  const connection = await open({ url })
  expect(await connection.run(scripts.add, [])).toBe(1)
})

test('a sentinel that says nothing is not asked first for ever', async () => {
  const [first, ...others] = trio.addresses.map(({ host, port }) => `${host}:${port}`)
  const network = await startProxy(`redis://${first}`)
  onTestFinished(() => network.close())
  network.blackHole()
  const hosts = [`127.0.0.1:${network.port}`, ...others].join()
  const connection = await open({ url: `redis+sentinel://${hosts}/${trio.masterName}` })
  expect(await connection.run(scripts.add, [])).toBe(1)
})

test('a client of the caller gives the sentinels', async () => {
  const client = new Redis({ sentinels: [...trio.addresses], name: trio.masterName, lazyConnect: true })
  onTestFinished(() => client.disconnect())
  const connection = await open({ client })
  expect(await connection.run(scripts.add, [])).toBe(1)
})
