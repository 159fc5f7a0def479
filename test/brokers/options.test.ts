import { isMillraceError } from 'millrace'
import { describe, expect, test } from 'vitest'
import { kafkaPublisher } from '../../src/outbox/publishers/kafka.js'
import { natsPublisher } from '../../src/outbox/publishers/nats.js'
import { rabbitPublisher } from '../../src/outbox/publishers/rabbitmq.js'
import { everything } from './messages.js'

const kafka = { producer: () => ({}) } as never

describe.each([
  [
    'rabbitPublisher',
    rabbitPublisher,
    'rabbitmq',
    { url: 'amqp://user:secret@[::1]:5672/vhost?heartbeat=3' },
  ],
  [
    'natsPublisher',
    natsPublisher,
    'nats',
    { servers: ['nats://user:secret@a', 'tls://user:secret@[::1]:4333'] },
  ],
  ['kafkaPublisher', kafkaPublisher, 'kafka', { brokers: ['a:9092', '[::1]:9092'] }],
  ['kafkaPublisher', kafkaPublisher, 'kafka', { kafka }],
] as [string, (options: never) => { name: string }, string, object][])('%s', (_, make, name, right) => {
  test('has a name, and takes what is right', () => {
    expect(make(right as never).name).toBe(name)
  })

  test('does not take what it does not know', () => {
    expect(problem(make, { ...right, inflight: 3, conectTimeout: 1 })).toMatch(/did you mean|known are/)
    expect(problem(make, undefined)).toContain('expected an object')
    expect(problem(make, { ...right, connectTimeout: 'soon' })).toContain('connectTimeout is "soon"')
    expect(problem(make, { ...right, connectTimeout: 0 })).toContain('connectTimeout is 0')
  })
})

test.each([
  { url: 'user:secret@host' },
  { url: 'http://user:secret@host' },
  { url: 'amqp://user:secret@' },
  { url: 'amqp://user:secret@host:port' },
  { url: 17 },
  {},
])('rabbitPublisher: no url in %o, and no password in what is said', (raw) => {
  expect(problem(rabbitPublisher, raw)).toContain('url is not right (it is not shown here)')
})

test.each([
  [{ exchange: 'x'.repeat(256) }, 'exchange'],
  [{ exchange: 1 }, 'exchange'],
  [{ persistent: 'yes' }, 'persistent'],
  [{ mandatory: 0 }, 'mandatory'],
  [{ inFlight: 0 }, 'inFlight'],
  [{ heartbeat: '1500ms' }, 'heartbeat'],
  [{ heartbeat: 0 }, 'heartbeat'],
  [{ socket: 'secret' }, 'socket'],
])('rabbitPublisher: %o', (raw, field) => {
  expect(problem(rabbitPublisher, { url: 'amqp://host', ...raw })).toContain(`${field} is`)
})

test.each([
  { servers: 'ws://user:secret@host' },
  { servers: 'nats://user:%secret@host' },
  { servers: ['nats://user:secret@a', 'b'] },
  { servers: [] },
  { servers: '' },
  { servers: 4222 },
  {},
])('natsPublisher: no servers in %o, and no password in what is said', (raw) => {
  expect(problem(natsPublisher, raw)).toContain('servers is not right (it is not shown here)')
})

test.each([
  [{ brokers: [] }, 'brokers'],
  [{ brokers: 'host:9092' }, 'brokers'],
  [{ brokers: ['user:secret@host:9092'] }, 'brokers'],
  [{ brokers: ['host'] }, 'brokers'],
  [{ brokers: ['host:9092'], kafka }, 'brokers'],
  [{ kafka: {} }, 'kafka'],
  [{ kafka, client: { sasl: 'secret' } }, 'client'],
  [{ brokers: ['host:9092'], maxBytes: 10 }, 'maxBytes'],
  [{ brokers: ['host:9092'], createTopics: 'no' }, 'createTopics'],
  [{}, 'brokers'],
])('kafkaPublisher: %o', (raw, field) => {
  expect(problem(kafkaPublisher, raw)).toContain(`${field} is`)
})

function problem(make: (options: never) => unknown, raw: unknown): string {
  try {
    make(raw as never)
  } catch (error) {
    expect(isMillraceError(error)).toBe(true)
    expect(everything(error)).not.toContain('secret')
    return (error as Error).message
  }
  throw new Error('nothing was wrong with it')
}
