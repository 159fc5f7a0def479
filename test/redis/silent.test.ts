/** A connection that says nothing any more is found out and replaced; nobody waits for it longer than its deadline. */
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Listener } from '../../src/stores/redis/listener.js'
import { type FaultyProxy, startProxy } from '../servers/proxy.js'
import { codeOf, errorOf, open, scripts, serverUrl, signal } from './redis.js'

let network: FaultyProxy

beforeAll(async () => {
  network = await startProxy(serverUrl())
})

beforeEach(() => network.heal())

afterAll(() => network.close())

describe('commands', () => {
  test('black hole: all calls go on with another connection, after one deadline', async () => {
    const connection = await openThrough({ commandTimeout: 300 })
    network.blackHole()
    network.heal() // for new connections only
    const before = network.accepted
    const start = performance.now()
    const calls = await Promise.all(Array.from({ length: 20 }, () => connection.run(scripts.add, [])))
    expect(new Set(calls).size).toBe(20)
    expect(performance.now() - start).toBeGreaterThan(290)
    expect(network.accepted).toBe(before + 1)
  })

  test('lost replies: what was done before is done again, once each', async () => {
    const connection = await openThrough({ commandTimeout: 200 })
    await connection.run(scripts.once, ['first']) // so that the server knows the script
    network.dropReplies()
    network.heal() // for new connections only
    expect(await connection.run(scripts.once, ['name'])).toBe(0) // the first attempt had arrived
    expect(await connection.run(scripts.count, [])).toBe(2)
  })

  test('a black hole at the start is left in time', async () => {
    network.blackHole()
    const before = network.accepted
    // Its own deadline has passed, not that of the attempt, which comes later.
    expect(await errorOf(openThrough({ patience: 100 }))).toMatchObject({
      code: 'STORE_UNAVAILABLE',
      cause: { message: 'no connection in time' },
    })
    expect(network.accepted).toBe(before + 1)
  })

  test('closing does not wait for a server that does not answer', async () => {
    const connection = await openThrough()
    network.blackHole()
    const waiting = codeOf(connection.run(scripts.add, []))
    await new Promise(setImmediate) // asked
    connection.close()
    expect(await waiting).toBe('CLOSED')
  })

  test('a call without patience leaves alone, and the connection stays', async () => {
    const connection = await openThrough()
    network.delay(1_500)
    const before = network.accepted
    const patient = connection.run(scripts.add, [])
    const hasty = codeOf(connection.run(scripts.add, [], { patience: 10 }))
    expect(await hasty).toBe('STORE_UNAVAILABLE')
    expect(await patient).toBe(1)
    expect(network.accepted).toBe(before)
  })

  test('a process that was busy itself takes the answer that has come meanwhile', async () => {
    const connection = await open({ commandTimeout: 100 })
    await connection.run(scripts.add, [])
    const answer = connection.run(scripts.add, [])
    await new Promise(setImmediate) // asked
    const end = performance.now() + 400
    while (performance.now() < end);
    expect(await answer).toBe(2) // 3 if it had been asked again
  })
})

describe('a listener', () => {
  test.each(['blackHole', 'cut', 'reset'] as const)('%s: is replaced', async (fault) => {
    const connection = await openThrough()
    const heard = signal<string>()
    let gaps = 0
    const gap = signal()
    const key = `${connection.shard.base}:inbox`
    const listener = new Listener({
      shard: connection.shard,
      key,
      heartbeat: 50,
      onMessage: heard.resolve,
      onGap: () => ++gaps === 2 && gap.resolve(),
    })
    onTestFinished(() => listener.stop())
    await listener.start()
    expect([listener.listening, gaps]).toEqual([true, 1])
    network[fault]()
    network.heal() // for new connections only
    await gap.promise
    const direct = await open()
    await direct.run(scripts.push, [key, 'mail'])
    expect(await heard.promise).toBe('mail')
  })
})

function openThrough(options: Parameters<typeof open>[0] = {}) {
  return open({ url: network.through(serverUrl()), ...options })
}
