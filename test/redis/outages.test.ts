/** The server dies, the network fails: calls wait it out, and nothing of them is lost or left hanging. */
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Connection } from '../../src/stores/redis/connection.js'
import { type FaultyProxy, startProxy } from '../servers/proxy.js'
import { type RedisServer, startOwnRedis } from '../servers/redis.js'
import { ask } from '../servers/redis-process.js'
import { codeOf, errorOf, open, scripts } from './redis.js'

let server: RedisServer
let network: FaultyProxy
let url: string

beforeAll(async () => {
  server = await startOwnRedis({ appendfsync: 'always' })
  network = await startProxy(server.url)
  url = network.through(server.url)
})

beforeEach(() => network.heal())

afterAll(async () => {
  await network.close()
  await server.stop()
})

describe('the network', () => {
  test.each(['cut', 'reset'] as const)('%s: a call goes on with another connection', async (fault) => {
    const connection = await openThrough()
    network[fault]()
    const answer = connection.run(scripts.add, [])
    await network.nextConnection()
    network.heal()
    expect(await answer).toBe(1)
  })

  test('slow and late: calls take longer, and nothing else', async () => {
    const connection = await openThrough()
    network.delay(20, 15)
    network.slow(64_000)
    const text = 'x'.repeat(10_000)
    expect(await connection.run(scripts.echo, [text])).toMatchObject({ 2: text })
  })

  test('a thousand calls wait it out together, without a warning, and do not try it all at once', async () => {
    const warned: Error[] = []
    const warn = (warning: Error) => warned.push(warning)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    const connection = await openThrough()
    network.cut()
    const before = network.accepted
    const calls = Promise.all(Array.from({ length: 1_000 }, () => connection.run(scripts.add, [])))
    for (let tries = 0; tries < 6; tries++) await network.nextConnection()
    expect(network.accepted - before).toBeLessThan(10)
    network.heal()
    expect(new Set(await calls).size).toBe(1_000)
    expect(warned).toEqual([])
  })

  test('a server that stays away is told of when patience is over', async () => {
    const connection = await openThrough({ patience: 150 })
    network.cut()
    const error = await errorOf(connection.run(scripts.add, []))
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', cause: expect.anything() })
    expect(error.message).toContain('Asking again is safe')
  })

  test('patience of one call: the others keep theirs', async () => {
    const connection = await openThrough()
    network.cut()
    const patient = connection.run(scripts.add, [])
    expect(await codeOf(connection.run(scripts.add, [], { patience: 50 }))).toBe('STORE_UNAVAILABLE')
    expect(await codeOf(connection.run(scripts.add, [], { patience: 0 }))).toBe('STORE_UNAVAILABLE')
    network.heal()
    expect(await patient).toBe(1)
  })
})

describe('connections', () => {
  test('that are killed are replaced, idle ones and those at work', async () => {
    const connection = await openThrough()
    for (let i = 1; i <= 3; i++) {
      await ask(server.port, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
      expect(await connection.run(scripts.add, [])).toBe(i)
    }
  })

  test('too many of them: calls wait until there is room', async () => {
    const full = await startOwnRedis({ settings: { maxclients: 1 } })
    onTestFinished(() => full.stop())
    const holder = await open({ url: full.url })
    const opening = open({ url: full.url })
    expect(await codeOf(open({ url: full.url, patience: 100 }))).toBe('STORE_UNAVAILABLE')
    holder.close()
    expect(await codeOf(opening)).toBe('ok')
  })
})

describe('the server', () => {
  test('killed and started again: calls go on, acknowledged ones are kept', async () => {
    const connection = await openThrough()
    const written: string[] = []
    let stop = false
    const writing = Array.from({ length: 4 }, async (_, writer) => {
      for (let i = 0; !stop; i++) {
        await connection.run(scripts.once, [`${writer}-${i}`])
        written.push(`${writer}-${i}`)
      }
    })
    for (let kills = 0; kills < 3; kills++) {
      const before = written.length
      while (written.length < before + 20) await connection.run(scripts.count, [])
      await server.kill()
      await server.start()
    }
    stop = true
    await Promise.all(writing)
    const kept = new Set((await connection.run(scripts.names, [])) as string[])
    expect(written.filter((name) => !kept.has(name))).toEqual([])
  })

  test('absent at the start: opening waits for it', async () => {
    await server.kill()
    network.cut() // says when it was tried
    const opening = openThrough()
    await network.nextConnection()
    network.heal()
    await server.start()
    expect(await (await opening).run(scripts.add, [])).toBe(1)
  })

  test('turned into a replica: calls wait until there is a primary again', async () => {
    const other = await startOwnRedis()
    onTestFinished(() => other.stop())
    const connection = await open({ url: other.url })
    await connection.run(scripts.add, [])
    await ask(other.port, (redis) => redis.replicaof('127.0.0.1', server.port))
    // It is refused a read as well: a replica may be behind.
    expect(await codeOf(connection.run(scripts.add, [], { patience: 50 }))).toBe('STORE_UNAVAILABLE')
    expect(await codeOf(connection.run(scripts.count, [], { patience: 50 }))).toBe('STORE_UNAVAILABLE')
    const waiting = codeOf(connection.run(scripts.add, []))
    const opening = codeOf(open({ url: other.url }))
    await ask(other.port, (redis) => redis.replicaof('NO', 'ONE'))
    expect(await waiting).toBe('ok')
    expect(await opening).toBe('ok')
  })

  test('a replica for good: opening says so', async () => {
    const replica = await startOwnRedis({ replicaOf: server })
    onTestFinished(() => replica.stop())
    const error = await errorOf(open({ url: replica.url, patience: 100 }))
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(error.message).toContain('primary')
  })
})

function openThrough(options: Parameters<typeof open>[0] = {}): Promise<Connection> {
  return open({ url, ...options })
}
