import amqp, { type ChannelModel } from 'amqplib'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Message } from '../../src/outbox/message.js'
import { type RabbitPublisherOptions, rabbitPublisher } from '../../src/outbox/publishers/rabbitmq.js'
import { quietPort } from '../servers/port.js'
import { startProxy } from '../servers/proxy.js'
import { type RabbitServer, startRabbit } from '../servers/rabbitmq.js'
import { again, errorOf, everything, message, messages, publish, reason, short } from './messages.js'
import { silentServer } from './silent-server.js'

const largest = 1_000
let server: RabbitServer

beforeAll(async () => {
  server = await startRabbit({ settings: { max_message_size: largest } })
}, 90_000)
afterAll(() => server?.stop())

describe('what is published', () => {
  test('arrives with its id, body, headers and time, and is on the disk', async () => {
    const queue = await freshQueue()
    const sent = message(queue, { body: '{"π":"🚀"}', headers: { tenant: 'acme', trace: 'ü' } })
    expect(await publish(open(), [sent])).toEqual(['published'])
    const [got] = await received(queue, 1)
    expect(got?.content.toString()).toBe('{"π":"🚀"}')
    expect(got?.properties).toMatchObject({
      messageId: sent.id,
      contentType: 'application/json',
      deliveryMode: 2,
      timestamp: 1_700_000_000,
      headers: { tenant: 'acme', trace: 'ü' },
    })
  })

  test('goes to the exchange, with the topic as its routing key', async () => {
    const queue = await freshQueue()
    await admin(async (channel) => {
      await channel.assertExchange('orders', 'topic')
      await channel.bindQueue(queue, 'orders', 'order.*')
    })
    const publisher = open({ exchange: 'orders', persistent: false })
    expect(await publish(publisher, [message('order.paid')])).toEqual(['published'])
    const [got] = await received(queue, 1)
    expect(got?.fields).toMatchObject({ exchange: 'orders', routingKey: 'order.paid' })
    expect(got?.properties.deliveryMode).toBe(1)
  })

  test('is in order for each key, and more than fits into the buffers comes through', async () => {
    const queue = await freshQueue()
    const batch = messages(queue, 3_000, (n) => ({
      ...(n % 10 < 2 && { key: `key ${n % 10}` }),
      body: `{"n":${n},"pad":"${'x'.repeat(900)}"}`,
    }))
    const results = await publish(open({ inFlight: 3_000 }), batch)
    expect(results.filter((result) => result !== 'published')).toEqual([])
    const got = (await received(queue, batch.length)).map(({ content }) => JSON.parse(content.toString()).n)
    for (const key of [0, 1]) {
      const own = got.filter((n) => n % 10 === key)
      expect(own).toEqual([...own].sort((a, b) => a - b))
    }
    expect(new Set(got).size).toBe(batch.length)
  }, 60_000)

  test('goes out again after the publisher was closed and opened', async () => {
    const queue = await freshQueue()
    const publisher = open()
    await publish(publisher, [message(queue)])
    await publisher.close?.()
    expect((await errorOf(publish(publisher, [message(queue)]))).code).toBe('CLOSED')
    await publisher.open?.()
    expect(await publish(publisher, [message(queue)])).toEqual(['published'])
    expect(await publish(publisher, [])).toEqual([])
  })
})

describe('a message that is at fault', () => {
  test('leads nowhere: it is refused, and holds back its key only', async () => {
    const queue = await freshQueue()
    const batch = [
      message('nowhere', { key: 'a' }),
      message(queue, { key: 'a' }),
      message(queue, { key: 'b' }),
      message(queue),
    ]
    const results = await publish(open(), batch)
    expect(results.map(short)).toEqual([
      'refused PUBLISH_REFUSED',
      'failed PUBLISH_REFUSED',
      'published',
      'published',
    ])
    expect(reason(results[0])).toContain('no queue has this name')
    expect(ids(await received(queue, 2))).toEqual(ids(batch.slice(2)))
    const careless = open({ mandatory: false })
    expect(await publish(careless, [message('nowhere')])).toEqual(['published'])
  })

  test('is too large for the server, which closes the channel: the others arrive, in their order', async () => {
    const queue = await freshQueue()
    const tooLarge = message(queue, { key: 'k3', body: `"${'x'.repeat(largest)}"` })
    const batch = messages(queue, 20, (n) => ({ key: `k${n % 7}` }))
    batch[10] = tooLarge
    const publisher = open()
    const results = await publish(publisher, batch)
    expect(short(results[10])).toBe('refused PUBLISH_REFUSED')
    expect(reason(results[10])).toMatch(/PRECONDITION_FAILED.*size/)
    expect(short(results[17])).toBe('failed PUBLISH_REFUSED')
    expect(results.filter((result) => result === 'published')).toHaveLength(18)
    const sound = batch.filter((_, n) => n !== 10 && n !== 17)
    const got = ids(await received(queue, 0))
    expect(new Set(got)).toEqual(new Set(ids(sound)))
    for (const key of ['k0', 'k1', 'k2', 'k3'])
      expect([...new Set(got)].filter((id) => sound.some((m) => m.id === id && m.key === key))).toEqual(
        ids(sound.filter((m) => m.key === key)),
      )
    expect(await publish(publisher, [message(queue)])).toEqual(['published'])
  })

  test('would break the connection: it is not sent', async () => {
    const queue = await freshQueue()
    const results = await publish(open(), [
      message('t'.repeat(256)),
      message(queue, { headers: { CC: 'elsewhere' } }),
      message(queue, { headers: { ['n'.repeat(256)]: '' } }),
      message(queue, { headers: { large: 'x'.repeat(65_000) } }),
      message(queue),
    ])
    const refused = 'refused PUBLISH_REFUSED'
    expect(results.map(short)).toEqual([refused, refused, refused, 'refused PAYLOAD_TOO_LARGE', 'published'])
    expect(await received(queue, 1)).toHaveLength(1)
  })
})

describe('a broker that is at fault', () => {
  test('turns messages down: they failed, and are not refused', async () => {
    const queue = await freshQueue({ maxLength: 1, overflow: 'reject-publish' })
    const batch = messages(queue, 4, () => ({ key: 'same' }))
    const results = await publish(open(), batch)
    expect(results.map(short)).toEqual([
      'published',
      'failed PUBLISH_FAILED',
      'failed PUBLISH_FAILED',
      'failed PUBLISH_FAILED',
    ])
    expect(ids(await received(queue, 1))).toEqual(ids(batch.slice(0, 1)))
  })

  test('has no such exchange: all is rejected with a sentence, and works once it is there', async () => {
    const publisher = open({ exchange: 'later' })
    const error = await errorOf(publish(publisher, messages('x', 3)))
    expect(error.message).toContain("has no exchange 'later'")
    await admin((channel) => channel.assertExchange('later', 'fanout'))
    expect((await publish(publisher, [message('x')])).map(short)).toEqual(['refused PUBLISH_REFUSED'])
  })

  test('is killed in the middle: what is open is not published, and afterwards all goes on', async () => {
    const own = await startRabbit()
    onTestFinished(() => own.stop())
    const queue = await freshQueue({}, own)
    await own.remembers(queue)
    const publisher = open({ url: own.url })
    await publish(publisher, [message(queue)])
    const batch = messages(queue, 20_000, (n) => ({ key: `key ${n % 50}` }))
    const publishing = publish(publisher, batch).catch((error: Error) => error)
    await arrived(own, queue)
    await own.kill()
    const results = await publishing
    const confirmed = Array.isArray(results) ? batch.filter((_, n) => results[n] === 'published') : []
    if (Array.isArray(results)) {
      expect(confirmed.length).toBeLessThan(batch.length)
      expect(new Set(results.map(short))).toEqual(new Set(['published', 'failed BROKER_UNAVAILABLE']))
    } else expect(results).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(await errorOf(publish(publisher, [message(queue)]))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })

    await own.start()
    await publisher.open?.()
    const rest = batch.filter((one) => !confirmed.includes(one)).slice(0, 200)
    expect(new Set(await publish(publisher, rest))).toEqual(new Set(['published']))
    const got = new Set(ids(await received(queue, 0, own)))
    for (const { id } of [...confirmed, ...rest]) expect(got.has(id)).toBe(true)
  }, 90_000)

  test('is not heard any more: the heartbeat or the signal tells, and a new connection is made', async () => {
    const queue = await freshQueue()
    const proxy = await startProxy(server.url)
    onTestFinished(() => proxy.close())
    const publisher = open({ url: proxy.through(server.url), heartbeat: '1s' })
    const batch = messages(queue, 5)
    await publisher.open?.()
    proxy.dropReplies()
    expect(await errorOf(publish(publisher, batch))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    proxy.heal()
    await publisher.open?.()
    proxy.blackHole()
    const aborting = AbortSignal.timeout(100)
    expect((await errorOf(publisher.publish(batch, aborting))).name).toBe('TimeoutError')
    proxy.heal()
    expect(new Set(await publish(publisher, batch))).toEqual(new Set(['published']))
    proxy.reset()
    expect(await again(publisher, batch.slice(0, 1))).toEqual(['published'])
    expect(new Set(ids(await received(queue, 11)))).toEqual(new Set(ids(batch)))
  })

  test('says nothing: the signal ends the wait, and the connection', async () => {
    const port = await silentServer()
    const publisher = open({ url: `amqp://user:secret@127.0.0.1:${port}`, connectTimeout: '1s' })
    const aborting = AbortSignal.timeout(100)
    expect((await errorOf(publisher.publish([message('x')], aborting))).name).toBe('TimeoutError')
    const hasty = open({ url: `amqp://user:secret@127.0.0.1:${port}`, connectTimeout: 200 })
    const error = await errorOf(hasty.open?.() ?? Promise.resolve())
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(everything(error)).not.toContain('secret')
  })

  test('is not there, or knows no such user: that is told without the password', async () => {
    const nobody = open({ url: `amqp://user:secret@127.0.0.1:${await quietPort()}/` })
    const stranger = open({ url: `amqp://guest:secret@127.0.0.1:${server.port}` })
    for (const publisher of [nobody, stranger]) {
      const error = await errorOf(publish(publisher, [message('x')]))
      expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      expect(everything(error)).not.toContain('secret')
    }
  })
})

function open(options: Partial<RabbitPublisherOptions> = {}) {
  const publisher = rabbitPublisher({ url: server.url, ...options })
  onTestFinished(() => publisher.close?.())
  return publisher
}

let queues = 0

async function freshQueue(options: amqp.Options.AssertQueue = {}, at = server): Promise<string> {
  const name = `queue-${++queues}`
  await admin((channel) => channel.assertQueue(name, { durable: true, ...options }), at)
  return name
}

async function admin<T>(work: (channel: amqp.Channel) => Promise<T>, at = server): Promise<T> {
  const connection: ChannelModel = await amqp.connect(at.url)
  try {
    return await work(await connection.createChannel())
  } finally {
    await connection.close()
  }
}

/** All that is in the queue, once there are so many. */
function received(queue: string, atLeast: number, at = server): Promise<amqp.GetMessage[]> {
  return admin(async (channel) => {
    const got: amqp.GetMessage[] = []
    for (;;) {
      const one = await channel.get(queue, { noAck: true })
      if (one !== false) got.push(one)
      else if (got.length >= atLeast) return got
    }
  }, at)
}

/** Something of the batch is there: it is on its way. */
async function arrived(at: RabbitServer, queue: string): Promise<void> {
  await admin(async (channel) => {
    while ((await channel.checkQueue(queue)).messageCount < 100);
  }, at)
}

function ids(list: readonly (Message | amqp.GetMessage)[]): string[] {
  return list.map((one) => ('properties' in one ? String(one.properties.messageId) : one.id))
}
