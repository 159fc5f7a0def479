import { type Duration, milliseconds } from '../../core/duration.js'
import { integer, invalid, noUnknown, unshown } from '../../core/options.js'
import type { Publisher } from '../publisher.js'
import { BrokerPublisher } from './broker.js'
import { flag, group, mostInFlight, timeout } from './options.js'
import { connectRabbit, type RabbitSettings } from './rabbitmq/connection.js'

export interface RabbitPublisherOptions {
  /** `amqp://user:password@host:5672/vhost`, or `amqps` for TLS. */
  readonly url: string
  /**
   * Where messages are published, with their topic as routing key. It must exist. The default exchange, '', takes a
   * topic for the name of a queue. @default ''
   */
  readonly exchange?: string
  /** Whether queues that are durable have a message on their disk before it is confirmed. @default true */
  readonly persistent?: boolean
  /** Whether a message that leads to no queue is refused, rather than dropped by the server. @default true */
  readonly mandatory?: boolean
  /** Messages that are on their way at a time. Of one key, it is always one. @default 256 */
  readonly inFlight?: number
  /** A server that says nothing for two of these is taken for lost; whole seconds. @default '10s' */
  readonly heartbeat?: Duration
  /** How long a connection may take to be made. @default '10s' */
  readonly connectTimeout?: Duration
  /** Options of the socket, as `tls.connect` and `amqplib` have them: `ca`, `cert`, `key`. @default none */
  readonly socket?: object
}

/**
 * Publishes to RabbitMQ with `amqplib` (`npm install amqplib`): one connection, one channel, a confirm for each message.
 * Its `messageId` is the message's id, and the same when it is published again, which RabbitMQ does not notice: consumers
 * use `inbox.once`, or are safe to repeat. Messages of one key go one after the other, each when the one before it has been
 * confirmed.
 */
export function rabbitPublisher(options: RabbitPublisherOptions): Publisher {
  const { connectTimeout, ...settings } = compile(options)
  return new BrokerPublisher({
    name: 'rabbitmq',
    title: 'RabbitMQ',
    where: settings.where,
    connectTimeout,
    connect: () => connectRabbit(settings),
  })
}

const defaults = {
  exchange: '',
  persistent: true,
  mandatory: true,
  inFlight: 256,
  heartbeat: '10s',
  connectTimeout: '10s',
  socket: {},
} as const

const known = ['url', ...Object.keys(defaults)]

function compile(raw: RabbitPublisherOptions): RabbitSettings & { readonly connectTimeout: number } {
  noUnknown(raw, known, 'rabbitPublisher')
  const connectTimeout = timeout(raw.connectTimeout ?? defaults.connectTimeout, 'connectTimeout')
  return {
    ...target(raw.url, raw.heartbeat),
    exchange: checkExchange(raw.exchange ?? defaults.exchange),
    persistent: flag(raw.persistent ?? defaults.persistent, 'persistent'),
    mandatory: flag(raw.mandatory ?? defaults.mandatory, 'mandatory'),
    inFlight: integer(raw.inFlight ?? defaults.inFlight, 'inFlight', 1, mostInFlight),
    socket: {
      noDelay: true,
      keepAlive: true,
      timeout: connectTimeout,
      ...group(raw.socket ?? defaults.socket, 'socket'),
    },
    connectTimeout,
  }
}

function checkExchange(exchange: string): string {
  if (typeof exchange !== 'string' || Buffer.byteLength(exchange) > longestName)
    throw invalid(
      'exchange',
      exchange,
      `the name of an exchange, of at most ${longestName} bytes`,
      longestName,
    )
  return exchange
}

const longestName = 255

/** A heartbeat in the URL counts, unless the option says another one. */
function target(url: unknown, heartbeat: Duration | undefined): { url: string; where: string } {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^amqps?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw unshown(
      'url',
      "a URL such as 'amqp://user:password@host:5672/vhost', or amqps:// for TLS; an @, / or : in a password is written %40, %2F or %3A",
    )
  const ms = milliseconds(heartbeat ?? defaults.heartbeat, 'heartbeat')
  if (ms < 1_000 || ms > 600_000 || ms % 1_000 !== 0)
    throw invalid('heartbeat', heartbeat, 'whole seconds, from 1s to 10m')
  if (heartbeat !== undefined || !parsed.searchParams.has('heartbeat'))
    parsed.searchParams.set('heartbeat', String(ms / 1_000))
  const port = parsed.port || (parsed.protocol === 'amqps:' ? '5671' : '5672')
  return { url: parsed.href, where: `${parsed.hostname}:${port}` }
}
