import { randomUUID } from 'node:crypto'
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Message } from '../../src/outbox/message.js'
import { type KafkaPublisherOptions, kafkaPublisher } from '../../src/outbox/publishers/kafka.js'
import { quietPort } from '../servers/port.js'
import { errorOf, everything, message, messages, publish, reason, short } from './messages.js'
import { RecordingKafka, said } from './recording-kafka.js'
import { silentServer } from './silent-server.js'

describe('what the client of Kafka is asked for', () => {
  test('is an idempotent producer, one batch for all, and records with key, id, headers and time', async () => {
    const kafka = new RecordingKafka()
    const publisher = open({ kafka, ackTimeout: '3s' })
    const keyed = message('orders', { key: 'acme', body: '1', headers: { tenant: 'ü', id: 'not this one' } })
    const bare = message('mails', { body: '2' })
    const last = message('orders', { key: 'acme', body: '3' })
    expect(await publish(publisher, [keyed, bare, last])).toEqual(['published', 'published', 'published'])
    expect(kafka.producers).toEqual([
      expect.objectContaining({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false }),
    ])
    const timestamp = '1700000000000'
    expect(kafka.batches).toEqual([
      {
        acks: -1,
        timeout: 3_000,
        topicMessages: [
          {
            topic: 'orders',
            messages: [
              { key: 'acme', value: '1', headers: { tenant: 'ü', id: keyed.id }, timestamp },
              { key: 'acme', value: '3', headers: { id: last.id }, timestamp },
            ],
          },
          { topic: 'mails', messages: [{ key: null, value: '2', headers: { id: bare.id }, timestamp }] },
        ],
      },
    ])
    expect(await publish(publisher, [])).toEqual([])
    await publisher.close?.()
    expect(kafka.connected).toBe(0)
    expect((await errorOf(publish(publisher, [bare]))).code).toBe('CLOSED')
  })

  test('is several batches where one would be larger than a broker takes', async () => {
    const kafka = new RecordingKafka()
    const batch = messages('t', 10, (n) => ({ body: `${n}`.repeat(300) }))
    batch[4] = message('t', { key: 'a', body: 'x'.repeat(1_000) })
    batch[7] = message('t', { key: 'a', body: 'y' })
    const results = await publish(open({ kafka, maxBytes: 1_000 }), batch)
    expect(results.map(short)).toEqual(
      batch.map((_, n) =>
        n === 4 ? 'refused PAYLOAD_TOO_LARGE' : n === 7 ? 'failed PAYLOAD_TOO_LARGE' : 'published',
      ),
    )
    const sent = kafka.sent.map(({ t }) => t)
    expect(sent.flat()).toEqual(batch.flatMap(({ body }, n) => (n === 4 || n === 7 ? [] : [body])))
    for (const some of sent) expect(some?.join('').length).toBeLessThanOrEqual(1_000)
    expect(sent.length).toBeLessThan(8)
  })

  test('is nothing where the topic cannot be one', async () => {
    const kafka = new RecordingKafka()
    const wrong = ['', 'a b', '..', 'ü', 'x'.repeat(250)].map((topic) => message(topic))
    expect(new Set((await publish(open({ kafka }), wrong)).map(short))).toEqual(
      new Set(['refused PUBLISH_REFUSED']),
    )
    expect(kafka.batches).toEqual([])
  })
})

describe('a batch that the brokers do not take', () => {
  test('because of one message: it is found, and holds back its key only', async () => {
    const kafka = new RecordingKafka()
    kafka.answers(({ topicMessages }) => {
      if (topicMessages.some(({ messages }) => messages.some(({ value }) => value === '{"n":5}')))
        throw said('MESSAGE_TOO_LARGE')
    })
    const batch = messages('t', 12, (n) => ({ key: `k${n % 3}` }))
    const results = await publish(open({ kafka }), batch)
    const held = [8, 11]
    expect(results.map(short)).toEqual(
      batch.map((_, n) =>
        n === 5 ? 'refused PUBLISH_REFUSED' : held.includes(n) ? 'failed PUBLISH_REFUSED' : 'published',
      ),
    )
    expect(reason(results[5])).toContain('max.message.bytes')
    expect(kafka.batches.length).toBeLessThan(10)
  })

  test('because of a topic: all its messages are refused, and those of others are published', async () => {
    const kafka = new RecordingKafka()
    kafka.answers(({ topicMessages }) => {
      if (topicMessages.some(({ topic }) => topic === 'missing')) throw said('UNKNOWN_TOPIC_OR_PARTITION')
    })
    const batch = [message('t'), ...messages('missing', 50), message('t')]
    const results = await publish(open({ kafka }), batch)
    expect([results[0], results[51]]).toEqual(['published', 'published'])
    expect(new Set(results.slice(1, 51).map(short))).toEqual(new Set(['refused PUBLISH_REFUSED']))
    expect(kafka.batches).toHaveLength(3)
  })

  test('for a reason of their own: nothing is known, and a new producer begins', async () => {
    const kafka = new RecordingKafka()
    const publisher = open({ kafka })
    kafka.answers(() => {
      throw said('NOT_ENOUGH_REPLICAS')
    })
    expect(await errorOf(publish(publisher, messages('t', 3)))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    kafka.answers(() => [])
    expect(await publish(publisher, messages('t', 2))).toEqual(['published', 'published'])
    expect(kafka.producers).toHaveLength(2)
    expect(kafka.connected).toBe(1)
  })

  test('in the middle: what came before is published, and nothing is sent after it', async () => {
    const kafka = new RecordingKafka()
    kafka.answers(() => {
      if (kafka.batches.length === 2) throw new Error('gone')
    })
    const batch = messages('t', 6, () => ({ body: 'x'.repeat(300) }))
    const results = await publish(open({ kafka, maxBytes: 1_000 }), batch)
    expect(results.map(short)).toEqual([
      ...Array(2).fill('published'),
      ...Array(4).fill('failed BROKER_UNAVAILABLE'),
    ])
    expect(kafka.batches).toHaveLength(2)
  })

  test('in time: the signal ends the wait, and the producer', async () => {
    const kafka = new RecordingKafka()
    const publisher = open({ kafka })
    const aborting = new AbortController()
    kafka.answers(() => {
      aborting.abort(new Error('enough'))
      return new Promise(() => {})
    })
    expect((await errorOf(publisher.publish(messages('t', 2), aborting.signal))).message).toBe('enough')
    expect(kafka.connected).toBe(0)
    expect((await errorOf(publisher.publish([], aborting.signal))).message).toBe('enough')
  })
})

describe('brokers', () => {
  test('that are not there are told in bounded time, without the password', async () => {
    const client = { sasl: { mechanism: 'plain', username: 'user', password: 'secret' } }
    const publisher = open({ brokers: [`127.0.0.1:${await quietPort()}`], client })
    const error = await errorOf(publish(publisher, [message('x')]))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(error.message).toMatch(/Kafka at 127\.0\.0\.1:\d+ cannot be used now/)
    expect(everything(error)).not.toContain('secret')
  })

  test('that say nothing are given up', async () => {
    const publisher = open({ brokers: [`127.0.0.1:${await silentServer()}`], connectTimeout: 500 })
    const error = await errorOf(publisher.open?.() ?? Promise.resolve())
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect((await errorOf(publisher.publish([message('x')], AbortSignal.timeout(100)))).name).toBe(
      'TimeoutError',
    )
  })
})

const brokers = (process.env.MILLRACE_KAFKA_BROKERS ?? '').split(',').filter((broker) => broker !== '')
const why = 'MILLRACE_KAFKA_BROKERS names no brokers (host:port,…) that tests may write to'

describe.skipIf(brokers.length === 0)(`a real broker (${brokers.length === 0 ? why : brokers})`, () => {
  test('has what is published, in order for each key, with ids and headers', async () => {
    const topic = await freshTopic()
    const batch = messages(topic, 500, (n) => ({ key: `key ${n % 7}`, headers: { n: String(n) } }))
    expect(new Set(await publish(open({ brokers }), batch))).toEqual(new Set(['published']))
    const got = await consumed(topic, batch.length)
    expect(got.map(({ id }) => id).sort()).toEqual(batch.map(({ id }) => id).sort())
    for (const { key } of batch.slice(0, 7)) {
      const own = (list: readonly Pick<Message, 'id' | 'key'>[]) =>
        list.filter((one) => one.key === key).map(({ id }) => id)
      expect(own(got)).toEqual(own(batch))
    }
  }, 60_000)

  test('refuses what is too large, and a topic that does not exist', async () => {
    const topic = await freshTopic([{ name: 'max.message.bytes', value: '2000' }])
    const batch = [
      message(topic),
      message(`missing-${randomUUID()}`),
      message(topic, { body: 'x'.repeat(5_000) }),
    ]
    const results = await publish(open({ brokers }), batch)
    expect(results.map(short)).toEqual(['published', 'refused PUBLISH_REFUSED', 'refused PUBLISH_REFUSED'])
  }, 60_000)
})

function open(options: KafkaPublisherOptions) {
  const publisher = kafkaPublisher(options)
  onTestFinished(() => publisher.close?.())
  return publisher
}

function client(): Kafka {
  return new Kafka({ brokers, logLevel: logLevel.NOTHING })
}

async function freshTopic(configEntries: { name: string; value: string }[] = []): Promise<string> {
  const topic = `millrace-${randomUUID()}`
  const admin = client().admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3, configEntries }], waitForLeaders: true })
  onTestFinished(async () => {
    await admin.deleteTopics({ topics: [topic] })
    await admin.disconnect()
  })
  return topic
}

async function consumed(topic: string, count: number): Promise<Pick<Message, 'id' | 'key'>[]> {
  const consumer = client().consumer({ groupId: randomUUID() })
  onTestFinished(() => consumer.disconnect())
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const got: Pick<Message, 'id' | 'key'>[] = []
  await new Promise<void>((resolve, reject) => {
    const eachMessage = async ({
      message: { key, headers },
    }: {
      message: { key: Buffer | null; headers?: object }
    }) => {
      got.push({ id: String((headers as { id?: Buffer }).id), key: key?.toString() })
      if (got.length === count) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  return got
}
