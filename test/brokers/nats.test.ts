import { type JetStreamManager, jetstreamManager, type StreamConfig } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Message } from '../../src/outbox/message.js'
import { type NatsPublisherOptions, natsPublisher } from '../../src/outbox/publishers/nats.js'
import { type NatsServer, startNats } from '../servers/nats.js'
import { quietPort } from '../servers/port.js'
import { startProxy } from '../servers/proxy.js'
import { again, errorOf, everything, message, messages, publish, reason, short } from './messages.js'
import { silentServer } from './silent-server.js'

const maxPayload = 10_000
let server: NatsServer

beforeAll(async () => {
  server = await startNats({ settings: [`max_payload: ${maxPayload}`] })
})
afterAll(() => server?.stop())

describe('what is published', () => {
  test('is in the stream with its id, body and headers', async () => {
    const subject = await freshStream()
    const sent = message(`${subject}.paid`, { body: '{"π":"🚀"}', headers: { tenant: 'acme', trace: 'ü' } })
    expect(await publish(open(), [sent])).toEqual(['published'])
    const [got] = await stored(subject)
    expect(got).toMatchObject({ subject: sent.topic, body: '{"π":"🚀"}', id: sent.id })
    expect(got?.header('tenant')).toBe('acme')
    expect(got?.header('trace')).toBe('ü')
  })

  test('twice is there once', async () => {
    const subject = await freshStream()
    const batch = messages(`${subject}.x`, 10)
    const [one, other] = [open(), open()]
    await publish(one, batch.slice(0, 6))
    expect(await publish(other, batch)).toEqual(Array(10).fill('published'))
    expect((await stored(subject)).map(({ id }) => id).sort()).toEqual(batch.map(({ id }) => id).sort())
  })

  test('is in order for each key', async () => {
    const subject = await freshStream()
    const batch = messages(`${subject}.x`, 2_000, (n) => (n % 5 === 0 ? {} : { key: `key ${n % 5}` }))
    const results = await publish(open(), batch)
    expect(results.filter((result) => result !== 'published')).toEqual([])
    const got = (await stored(subject)).map(({ body }) => JSON.parse(body).n as number)
    expect(got).toHaveLength(batch.length)
    for (const key of [1, 2, 3, 4]) {
      const own = got.filter((n) => n % 5 === key)
      expect(own).toEqual([...own].sort((a, b) => a - b))
    }
  })

  test('goes out again after the publisher was closed and opened', async () => {
    const subject = await freshStream()
    const publisher = open()
    await publish(publisher, [message(`${subject}.x`)])
    await publisher.close?.()
    expect((await errorOf(publish(publisher, [message(`${subject}.x`)]))).code).toBe('CLOSED')
    await publisher.open?.()
    expect(await publish(publisher, [message(`${subject}.x`)])).toEqual(['published'])
    expect(await publish(publisher, [])).toEqual([])
  })
})

describe('a message that is at fault', () => {
  test('has no stream: it is refused, and holds back its key only', async () => {
    const subject = await freshStream()
    const batch = [
      message('nowhere', { key: 'a' }),
      message(`${subject}.x`, { key: 'a' }),
      message(`${subject}.x`, { key: 'b' }),
      message('nowhere.either'),
      message(`${subject}.x`),
    ]
    const results = await publish(open(), batch)
    expect(results.map(short)).toEqual([
      'refused PUBLISH_REFUSED',
      'failed PUBLISH_REFUSED',
      'published',
      'refused PUBLISH_REFUSED',
      'published',
    ])
    expect(reason(results[0])).toContain('no stream takes this subject')
    expect(await stored(subject)).toHaveLength(2)
  })

  test('has somebody who listens, but no stream: it is refused when nobody acknowledges it', async () => {
    const deaf = await connect({ servers: server.url })
    onTestFinished(() => deaf.close())
    deaf.subscribe('deaf')
    deaf.subscribe('talks', { callback: (_, got) => void got.respond('hello') })
    await deaf.flush()
    const results = await publish(open({ ackTimeout: 200 }), [message('deaf'), message('talks')])
    expect(results.map(short)).toEqual(['refused PUBLISH_REFUSED', 'refused PUBLISH_REFUSED'])
  })

  test('is too large for the server or its stream', async () => {
    const subject = await freshStream({ max_msg_size: 500 })
    const headers = { tenant: 'acme' }
    const most = 10_000 - Buffer.byteLength('NATS/1.0\r\n\r\n')
    const fitting = await freshStream()
    const exact = message(`${fitting}.x`, { headers })
    const rest = most - Buffer.byteLength(`tenant: acme\r\nNats-Msg-Id: ${exact.id}\r\n`)
    const results = await publish(open(), [
      message(`${subject}.x`, { body: 'x'.repeat(600) }),
      message(`${subject}.x`, { body: 'x'.repeat(maxPayload) }),
      { ...exact, body: 'x'.repeat(rest) },
      { ...exact, body: 'x'.repeat(rest + 1) },
    ])
    const tooLarge = 'refused PAYLOAD_TOO_LARGE'
    expect(results.map(short)).toEqual([tooLarge, tooLarge, 'published', tooLarge])
    expect(results[1]).toMatchObject({ error: { limit: maxPayload } })
  })

  test('would break the protocol: it is not sent', async () => {
    const subject = await freshStream()
    const wrong = ['', 'a b', 'a..b', '.a', 'a.', 'a.*', '>', 'a\r\nPUB b 0'].map((topic) => message(topic))
    const results = await publish(open(), [
      ...wrong,
      message(`${subject}.x`, { headers: { 'a:b': '' } }),
      message(`${subject}.x`, { headers: { a: 'b\r\nc' } }),
      message(`${subject}.x`, { headers: { 'Nats-Expected-Stream': 'another' } }),
    ])
    expect(new Set(results.map(short))).toEqual(new Set(['refused PUBLISH_REFUSED']))
    expect(await stored(subject)).toEqual([])
  })

  test('may not be published by this user', async () => {
    const login = { user: 'u', pass: 's/cret', mayPublish: ['ok.>', '$JS.API.STREAM.NAMES'] }
    const own = await startNats({ login, jetstream: false })
    onTestFinished(() => own.stop())
    const publisher = open({ servers: `nats://u:s%2Fcret@127.0.0.1:${own.port}`, ackTimeout: '2s' })
    const [result] = await publish(publisher, [message('secret')])
    expect(short(result)).toBe('refused PUBLISH_REFUSED')
    expect(reason(result)).toContain('may not publish')
  })
})

describe('a broker that is at fault', () => {
  test('has a full stream: they failed, and are not refused', async () => {
    const subject = await freshStream({ max_msgs: 1, discard: 'new' } as Partial<StreamConfig>)
    const results = await publish(
      open(),
      messages(`${subject}.x`, 3, () => ({ key: 'same' })),
    )
    expect(results.map(short)).toEqual(['published', 'failed PUBLISH_FAILED', 'failed PUBLISH_FAILED'])
    expect(reason(results[1])).toContain('maximum messages exceeded')
  })

  test('has no JetStream: that is told', async () => {
    const own = await startNats({ jetstream: false })
    onTestFinished(() => own.stop())
    const [result] = await publish(open({ servers: own.url }), [message('x')])
    expect(short(result)).toBe('failed PUBLISH_FAILED')
    expect(reason(result)).toContain('JetStream does not answer')
  })

  test('is killed in the middle: what is open is not published, and afterwards all goes on', async () => {
    const own = await startNats()
    onTestFinished(() => own.stop())
    const subject = await freshStream({}, own)
    const publisher = open({ servers: own.url })
    await publish(publisher, [message(`${subject}.x`)])
    const batch = messages(`${subject}.x`, 20_000, (n) => ({ key: `key ${n % 50}` }))
    const publishing = publish(publisher, batch).catch((error: Error) => error)
    await atLeast(own, subject, 200)
    await own.kill()
    const results = await publishing
    const acknowledged = Array.isArray(results) ? batch.filter((_, n) => results[n] === 'published') : []
    expect(acknowledged.length).toBeGreaterThan(0)
    expect(acknowledged.length).toBeLessThan(batch.length)
    expect(new Set((results as []).map(short))).toEqual(new Set(['published', 'failed BROKER_UNAVAILABLE']))
    expect(await errorOf(publish(publisher, [message('x')]))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })

    await own.start()
    await publisher.open?.()
    const rest = batch.filter((one) => !acknowledged.includes(one)).slice(0, 200)
    expect(new Set(await publish(publisher, rest))).toEqual(new Set(['published']))
    const got = (await stored(subject, own)).map(({ id }) => id)
    expect(new Set(got).size).toBe(got.length)
    for (const { id } of [...acknowledged, ...rest]) expect(got).toContain(id)
  }, 60_000)

  test('is not heard any more: nothing is known, and what is published again is there once', async () => {
    const subject = await freshStream()
    const proxy = await startProxy(server.url)
    onTestFinished(() => proxy.close())
    const publisher = open({ servers: proxy.through(server.url), ackTimeout: 200 })
    const batch = messages(`${subject}.x`, 5)
    await publisher.open?.()
    proxy.dropReplies()
    expect(await errorOf(publish(publisher, batch))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    proxy.heal()
    expect(new Set(await publish(publisher, batch))).toEqual(new Set(['published']))
    proxy.reset()
    expect(await again(publisher, [message(`${subject}.x`)])).toEqual(['published'])
    expect(await stored(subject)).toHaveLength(6)
  })

  test('says nothing: the wait is ended, by the signal or in time', async () => {
    const port = await silentServer()
    const publisher = open({ servers: `nats://user:secret@127.0.0.1:${port}`, connectTimeout: 300 })
    const aborting = AbortSignal.timeout(100)
    expect((await errorOf(publisher.publish([message('x')], aborting))).name).toBe('TimeoutError')
    const error = await errorOf(publisher.open?.() ?? Promise.resolve())
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(everything(error)).not.toContain('secret')
  })

  test('is not there, or knows no such user: that is told without the password', async () => {
    const own = await startNats({ login: { user: 'user', pass: '12:34' } })
    onTestFinished(() => own.stop())
    const at = `127.0.0.1:${own.port}`
    await open({ servers: [`nats://user:12%3A34@${at}`] }).open?.()
    const nobody = open({ servers: `nats://user:secret@127.0.0.1:${await quietPort()}` })
    const stranger = open({ servers: `nats://user:secret@${at}` })
    for (const publisher of [nobody, stranger]) {
      const error = await errorOf(publish(publisher, [message('x')]))
      expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      expect(everything(error)).not.toContain('secret')
    }
  })
})

function open(options: Partial<NatsPublisherOptions> = {}) {
  const publisher = natsPublisher({ servers: server.url, ...options })
  onTestFinished(() => publisher.close?.())
  return publisher
}

let streams = 0

/** Answers what its subjects begin with, which is its name. */
async function freshStream(options: Partial<StreamConfig> = {}, at = server): Promise<string> {
  const name = `stream${++streams}`
  await admin((manager) => manager.streams.add({ name, subjects: [`${name}.>`], ...options }), at)
  return name
}

async function admin<T>(work: (manager: JetStreamManager) => Promise<T>, at = server): Promise<T> {
  const connection: NatsConnection = await connect({ servers: at.url })
  try {
    return await work(await jetstreamManager(connection))
  } finally {
    await connection.close()
  }
}

interface Stored extends Pick<Message, 'id' | 'body'> {
  readonly subject: string
  readonly header: (name: string) => string | undefined
}

/** All that is in the stream, in its order. */
function stored(stream: string, at = server): Promise<Stored[]> {
  return admin(async (manager) => {
    const { state } = await manager.streams.info(stream)
    const seqs = Array.from({ length: state.messages }, (_, n) => state.first_seq + n)
    return Promise.all(
      seqs.map(async (seq) => {
        const got = await manager.streams.getMessage(stream, { seq })
        if (got === null) throw new Error(`message ${seq} is gone`)
        const header = (name: string) => got.header.get(name)
        return { subject: got.subject, id: header('Nats-Msg-Id'), body: got.string(), header }
      }),
    )
  }, at)
}

async function atLeast(at: NatsServer, stream: string, count: number): Promise<void> {
  await admin(async (manager) => {
    while ((await manager.streams.info(stream)).state.messages < count);
  }, at)
}
