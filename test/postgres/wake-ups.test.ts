import type { Signal } from 'millrace'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Notifier } from '../../src/databases/postgres/notifier.js'
import { WakeUps } from '../../src/databases/postgres/wake-ups.js'
import { startProxy } from '../servers/proxy.js'
import { asAdmin, freshSchema, open, serverUrl, signal } from './postgres.js'

describe('a process', () => {
  test('hears of queues that others told of, and not of its own', async () => {
    const schema = freshSchema()
    const [a, b] = [await listener(schema), await listener(schema)]
    a.wakeUps.ready(['mail', 'images'])
    expect([await b.next(), await b.next()]).toEqual([ready('mail'), ready('images')])
    b.wakeUps.changed()
    expect(await a.next()).toEqual(changed)
    b.wakeUps.ready(['last'])
    expect(await a.next()).toEqual(ready('last'))
  })

  test('does not hear of other schemas', async () => {
    const schema = freshSchema()
    const [a, b, other] = [await listener(schema), await listener(schema), await listener(freshSchema())]
    other.wakeUps.ready(['foreign'])
    await asAdmin((client) => client.query(`SELECT pg_notify('millrace.${other.schema}', 'x barrier')`))
    expect(await other.next()).toEqual(ready('barrier')) // so 'foreign' is through
    a.wakeUps.ready(['ours'])
    expect(await b.next()).toEqual(ready('ours'))
  })

  test('that does not listen tells others all the same', async () => {
    const schema = freshSchema()
    const a = await listener(schema)
    const connection = await open({ schema })
    const deaf = new WakeUps(connection, { schema, listen: false }, () => {
      throw new Error('heard something')
    })
    onTestFinished(() => deaf.stop())
    await deaf.start()
    deaf.ready(['mail'])
    expect(await a.next()).toEqual(ready('mail'))
  })
})

describe('a listening connection', () => {
  test('that is terminated is replaced, and says that something may have been missed', async () => {
    const schema = freshSchema()
    const [a, b] = [await listener(schema), await listener(schema)]
    await asAdmin((client) =>
      client.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1`, [
        `LISTEN "millrace.${schema}"`,
      ]),
    )
    expect([await a.next(), await b.next()]).toEqual([changed, changed])
    a.wakeUps.ready(['mail'])
    expect(await b.next()).toEqual(ready('mail'))
  })

  test.each(['blackHole', 'cut', 'reset'] as const)('%s: is replaced', async (fault) => {
    const schema = freshSchema()
    const network = await startProxy(serverUrl())
    onTestFinished(() => network.close())
    const a = await listener(schema, network.through(serverUrl()), 50)
    network[fault]()
    network.heal() // for new connections only
    expect(await a.next()).toEqual(changed)
    const b = await listener(schema)
    b.wakeUps.ready(['mail'])
    expect(await a.next()).toEqual(ready('mail'))
  })

  test('goes on being replaced until it is stopped', async () => {
    const network = await startProxy(serverUrl())
    onTestFinished(() => network.close())
    const a = await listener(freshSchema(), network.through(serverUrl()), 50)
    network.cut()
    for (let tries = 0; tries < 3; tries++) await network.nextConnection()
    await a.wakeUps.stop()
  })
})

describe('a notifier', () => {
  test('tells at once, then at most once in a while, and never loses the last', async () => {
    const sent: { queues: readonly string[]; at: number }[] = []
    const last = signal()
    const notifier = new Notifier(async (queues) => {
      sent.push({ queues, at: performance.now() })
      if (queues.includes('last')) last.resolve()
    })
    notifier.notify(['mail'])
    expect(sent).toHaveLength(1)
    const end = performance.now() + 60
    while (performance.now() < end) {
      notifier.notify(['mail'])
      await new Promise(setImmediate)
    }
    notifier.notify(['last'])
    await last.promise
    const mails = sent.filter(({ queues }) => queues.includes('mail')).map(({ at }) => at)
    expect(mails.length).toBeGreaterThan(2)
    for (let i = 1; i < mails.length; i++)
      expect((mails[i] as number) - (mails[i - 1] as number)).toBeGreaterThan(5)
  })

  test('asks a slow server for one thing at a time', async () => {
    const answer = signal()
    const sent: (readonly string[])[] = []
    const done = signal()
    const notifier = new Notifier((queues) => {
      sent.push(queues)
      if (sent.length === 2) done.resolve()
      return answer.promise
    })
    notifier.notify(['a'])
    notifier.notify(['b'])
    notifier.notify(['c'])
    expect(sent).toEqual([['a']])
    answer.resolve()
    await done.promise
    expect(sent).toEqual([['a'], ['b', 'c']])
  })

  test('that fails goes on', async () => {
    const second = signal<readonly string[]>()
    let calls = 0
    const notifier = new Notifier((queues) => {
      if (++calls === 2) second.resolve(queues)
      return Promise.reject(new Error('no server'))
    })
    notifier.notify(['a'])
    notifier.notify(['b'])
    expect(await second.promise).toEqual(['b'])
  })
})

const changed: Signal = { type: 'changed' }

function ready(queue: string): Signal {
  return { type: 'ready', queues: new Set([queue]) }
}

/** Wake-ups whose signals can be awaited one by one; the first, of its own connecting, has been. */
async function listener(schema: string, url = serverUrl(), heartbeat?: number) {
  const heard: Signal[] = []
  const waiting: ((signal: Signal) => void)[] = []
  const connection = await open({ schema })
  const listening = url === serverUrl() ? connection : await open({ schema, url })
  const wakeUps = new WakeUps(
    listening,
    { schema, listen: true },
    (signal) => {
      const resolve = waiting.shift()
      if (resolve) resolve(signal)
      else heard.push(signal)
    },
    heartbeat,
  )
  onTestFinished(() => wakeUps.stop())
  const next = () =>
    new Promise<Signal>((resolve) => {
      const signal = heard.shift()
      if (signal) resolve(signal)
      else waiting.push(resolve)
    })
  await wakeUps.start()
  expect(await next()).toEqual(changed)
  return { wakeUps, next, schema }
}
