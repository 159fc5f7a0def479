import type { Duration } from '../../core/duration.js'
import { integer, invalid, noUnknown, unshown } from '../../core/options.js'
import type { Publisher } from '../publisher.js'
import { BrokerPublisher } from './broker.js'
import { connectKafka, type KafkaSettings } from './kafka/connection.js'
import type { KafkaClient } from './kafka/driver.js'
import { flag, group, timeout } from './options.js'

export type { KafkaBatch, KafkaClient, KafkaMessage, KafkaProducer } from './kafka/driver.js'

export interface KafkaPublisherOptions {
  /** Some brokers of the cluster: `['host:9092']`. Either these or `kafka`. */
  readonly brokers?: readonly string[]
  /** More options of `new Kafka`, as `kafkajs` has them, for `brokers`: `ssl`, `sasl`, `clientId`. @default none */
  readonly client?: object
  /** The caller's own `Kafka` of `kafkajs`, or of a client that is like it. A producer of our own is made with it. */
  readonly kafka?: KafkaClient
  /** Whether a topic that does not exist is made where the brokers do that; else its messages are refused. @default false */
  readonly createTopics?: boolean
  /**
   * Bytes that are sent together, and of one message at the most: no more than `max.message.bytes` of the topics, which is
   * 1 MiB unless it is set. @default 1_000_000
   */
  readonly maxBytes?: number
  /** How long the brokers may take to have a batch on all replicas that are in sync. @default '10s' */
  readonly ackTimeout?: Duration
  /** How long a connection may take to be made. @default '15s' */
  readonly connectTimeout?: Duration
}

/**
 * Publishes to Kafka with `kafkajs` (`npm install kafkajs`): an idempotent producer, acknowledged by all replicas that are
 * in sync. The message's key is the record's, so messages of one key and topic are in one partition, in their order; its id
 * and its headers are the record's headers.
 *
 * Kafka drops what this producer sends again by itself, and nothing else: when a relay has crashed, or an answer was lost,
 * the message is published again by another producer and is there twice. Consumers drop it by its header `id`, as
 * `inbox.once` does, or are safe to repeat.
 */
export function kafkaPublisher(options: KafkaPublisherOptions): Publisher {
  const { connectTimeout, ...settings } = compile(options)
  return new BrokerPublisher({
    name: 'kafka',
    title: 'Kafka',
    where: settings.where,
    connectTimeout,
    connect: () => connectKafka(settings),
  })
}

const defaults = {
  client: {},
  createTopics: false,
  maxBytes: 1_000_000,
  ackTimeout: '10s',
  connectTimeout: '15s',
} as const

const known = ['brokers', 'kafka', ...Object.keys(defaults)]

function compile(raw: KafkaPublisherOptions): KafkaSettings & { readonly connectTimeout: number } {
  noUnknown(raw, known, 'kafkaPublisher')
  checkTarget(raw)
  const { kafka, brokers = [] } = raw
  const ackTimeout = timeout(raw.ackTimeout ?? defaults.ackTimeout, 'ackTimeout')
  return {
    where: kafka === undefined ? brokers.join(', ') : 'the brokers of the client',
    kafka,
    client: {
      clientId: 'millrace',
      connectionTimeout: 3_000,
      requestTimeout: ackTimeout + travelMs,
      retry: { initialRetryTime: 100, retries: 3 },
      ...group(raw.client ?? defaults.client, 'client'),
      brokers: [...brokers],
    },
    createTopics: flag(raw.createTopics ?? defaults.createTopics, 'createTopics'),
    maxBytes: integer(raw.maxBytes ?? defaults.maxBytes, 'maxBytes', 1_000, 2 ** 30),
    ackTimeout,
    connectTimeout: timeout(raw.connectTimeout ?? defaults.connectTimeout, 'connectTimeout'),
  }
}

const travelMs = 2_000

function checkTarget({ brokers, kafka, client }: KafkaPublisherOptions): void {
  if ((brokers === undefined) === (kafka === undefined)) throw unshown('brokers', 'either them or kafka')
  if (kafka !== undefined) {
    if (typeof (kafka as KafkaClient | null)?.producer !== 'function')
      throw invalid('kafka', kafka, 'a Kafka of kafkajs, or of a client that is like it')
    if (client !== undefined) throw unshown('client', 'none beside kafka, which has its own options')
    return
  }
  const right = Array.isArray(brokers) && brokers.length > 0 && brokers.every(isAddress)
  if (!right)
    throw unshown('brokers', "addresses such as ['host:9092', '[::1]:9092']; logins go into client.sasl")
}

function isAddress(broker: unknown): boolean {
  return typeof broker === 'string' && /^(\[[0-9A-Fa-f:.%]+\]|[^\s:@/[\]]+):\d{1,5}$/.test(broker)
}
