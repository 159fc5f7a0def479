import { describe, expect, onTestFinished, test } from 'vitest'
import type { Connection } from '../../src/stores/redis/connection.js'
import { Listener } from '../../src/stores/redis/listener.js'
import { startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { open, scripts, signal } from './redis.js'

describe('a listener', () => {
  test('hears what was put into its list, in order, also what was there before', async () => {
    const connection = await open()
    const ear = listenerOf(connection)
    await connection.run(scripts.push, [ear.key, 'before'])
    await ear.listener.start()
    for (const text of ['a', 'π 🚀', 'c']) await connection.run(scripts.push, [ear.key, text])
    expect([await ear.next(), await ear.next(), await ear.next(), await ear.next()]).toEqual([
      'before',
      'a',
      'π 🚀',
      'c',
    ])
  })

  test('asks once in each heartbeat', async () => {
    const server = await startOwnRedis()
    onTestFinished(() => server.stop())
    const ear = listenerOf(await open({ url: server.url }), 300)
    await ear.listener.start()
    await ask(server.port, (redis) => redis.config('RESETSTAT'))
    const start = performance.now()
    while (performance.now() - start < 1_000) await ask(server.port, (redis) => redis.ping())
    const stats = await ask(server.port, (redis) => redis.info('commandstats'))
    expect(Number(/cmdstat_blpop:calls=(\d+)/.exec(stats)?.[1])).toBeLessThanOrEqual(5)
  })

  test('does not keep the process alive', async () => {
    const connection = await open()
    const before = sockets()
    const ear = listenerOf(connection)
    await ear.listener.start()
    await connection.run(scripts.add, [])
    expect(sockets()).toBe(before)
  })

  test('whose server was killed listens to the next, and says that something may have been missed', async () => {
    const server = await startOwnRedis()
    onTestFinished(() => server.stop())
    const connection = await open({ url: server.url })
    const ear = listenerOf(connection)
    await ear.listener.start()
    await ear.gap()
    await server.kill()
    await server.start()
    await ear.gap()
    expect(ear.listener.listening).toBe(true)
    await connection.run(scripts.push, [ear.key, 'mail'])
    expect(await ear.next()).toBe('mail')
  })

  test('whose server becomes a replica waits until it is a primary again', async () => {
    const [server, other] = [await startOwnRedis(), await startOwnRedis()]
    onTestFinished(async () => {
      await server.stop()
      await other.stop()
    })
    const connection = await open({ url: server.url })
    const ear = listenerOf(connection)
    await ear.listener.start()
    await ear.gap()
    await ask(server.port, (redis) => redis.replicaof('127.0.0.1', other.port))
    while (ear.listener.listening) await new Promise(setImmediate)
    await ask(server.port, (redis) => redis.replicaof('NO', 'ONE'))
    await ear.gap()
    await connection.run(scripts.push, [ear.key, 'mail'])
    expect(await ear.next()).toBe('mail')
  })

  test('that cannot reach its server says so after the first attempt, and goes on', async () => {
    const server = await startOwnRedis()
    onTestFinished(() => server.stop())
    const ear = listenerOf(await open({ url: server.url }))
    await server.kill()
    await ear.listener.start()
    expect(ear.listener.listening).toBe(false)
    await server.start()
    await ear.gap()
    expect(ear.listener.listening).toBe(true)
  })

  test('that is stopped hears nothing any more', async () => {
    const server = await startOwnRedis()
    onTestFinished(() => server.stop())
    const connection = await open({ url: server.url })
    const ear = listenerOf(connection)
    await ear.listener.start()
    ear.listener.stop()
    expect(ear.listener.listening).toBe(false)
    await ask(server.port, async (redis) => {
      while (!/blocked_clients:0/.test(await redis.info('clients')));
      await redis.rpush(ear.key, 'late')
      expect(await redis.llen(ear.key)).toBe(1)
    })
  })
})

function listenerOf(connection: Connection, heartbeat?: number) {
  const [texts, gaps] = [line<string>(), line()]
  const key = `${connection.shard.base}:inbox`
  const listener = new Listener({
    shard: connection.shard,
    key,
    onMessage: texts.put,
    onGap: gaps.put,
    ...(heartbeat !== undefined && { heartbeat }),
  })
  onTestFinished(() => listener.stop())
  return { listener, key, next: texts.next, gap: gaps.next }
}

/** What is put in comes out, in order, as soon as it is there. */
function line<T = void>() {
  const values: T[] = []
  let more = signal()
  return {
    put: (value: T) => {
      values.push(value)
      more.resolve()
    },
    next: async (): Promise<T> => {
      while (values.length === 0) {
        more = signal()
        await more.promise
      }
      return values.shift() as T
    },
  }
}

/** Those that keep the process alive. */
function sockets(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length
}
