import type { Duration } from '../../core/duration.js'
import { integer, noUnknown, unshown } from '../../core/options.js'
import type { Publisher } from '../publisher.js'
import { BrokerPublisher } from './broker.js'
import { connectNats, type NatsSettings } from './nats/connection.js'
import { group, mostInFlight, timeout } from './options.js'

export interface NatsPublisherOptions {
  /** One server or several of a cluster: `host:4222`, `nats://user:password@host:4222`, or `tls` for TLS. */
  readonly servers: string | readonly string[]
  /** Messages that are on their way at a time. Of one key, it is always one. @default 256 */
  readonly inFlight?: number
  /** How long a stream may take to say that it has a message. @default '5s' */
  readonly ackTimeout?: Duration
  /** How long a connection may take to be made. @default '10s' */
  readonly connectTimeout?: Duration
  /** More options of `connect`, as the NATS client has them: `authenticator`, `token`, `tls`. @default none */
  readonly connection?: object
}

/**
 * Publishes to streams of NATS JetStream (`npm install @nats-io/transport-node @nats-io/jetstream`): the topic is the
 * subject, and each message is acknowledged by its stream. The message's id is its `Nats-Msg-Id`, so within the
 * `duplicate_window` of the stream (two minutes, unless it is set) a message that is published again is dropped. Messages of
 * one key go one after the other, each when the one before it has been acknowledged.
 */
export function natsPublisher(options: NatsPublisherOptions): Publisher {
  const { connectTimeout, ...settings } = compile(options)
  return new BrokerPublisher({
    name: 'nats',
    title: 'NATS',
    where: settings.where,
    connectTimeout,
    connect: () => connectNats(settings),
  })
}

const defaults = { inFlight: 256, ackTimeout: '5s', connectTimeout: '10s', connection: {} } as const

const known = ['servers', ...Object.keys(defaults)]

function compile(raw: NatsPublisherOptions): NatsSettings & { readonly connectTimeout: number } {
  noUnknown(raw, known, 'natsPublisher')
  const { addresses, login } = target(raw.servers)
  const connectTimeout = timeout(raw.connectTimeout ?? defaults.connectTimeout, 'connectTimeout')
  return {
    where: addresses.join(', '),
    inFlight: integer(raw.inFlight ?? defaults.inFlight, 'inFlight', 1, mostInFlight),
    ackTimeout: timeout(raw.ackTimeout ?? defaults.ackTimeout, 'ackTimeout'),
    connectTimeout,
    connection: {
      name: 'millrace',
      timeout: connectTimeout,
      // Finds out about a connection that is dead.
      pingInterval: 10_000,
      noAsyncTraces: true,
      ...login,
      ...group(raw.connection ?? defaults.connection, 'connection'),
      servers: addresses,
      // A lost connection is replaced by a new one: the client would keep what is open for it, and send it then.
      reconnect: false,
    },
  }
}

interface Target {
  readonly addresses: string[]
  readonly login: object
}

/** The client takes no login from an address. */
function target(servers: unknown): Target {
  const urls = (Array.isArray(servers) ? servers : [servers]).map(parse)
  const logins = new Set(urls.map(({ username, password }) => `${username}:${password}`))
  if (urls.length === 0 || logins.size > 1)
    throw unshown('servers', 'at least one server, and the same user and password for all of them')
  const [first] = urls as [URL, ...URL[]]
  return {
    addresses: urls.map(({ hostname, port }) => `${hostname}:${port || 4222}`),
    login: { ...loginOf(first), ...(urls.some(({ protocol }) => protocol === 'tls:') && { tls: {} }) },
  }
}

/** A user without a password is a token, as other clients of NATS have it. */
function loginOf(url: URL): object {
  const [user, pass] = [decoded(url.username), decoded(url.password)]
  if (pass) return { user, pass }
  return user ? { token: user } : {}
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw unshown('servers', '%-escapes that are right; a % itself is %25')
  }
}

function parse(server: unknown): URL {
  const text = typeof server === 'string' ? server.trim() : ''
  const url = text.includes('://') ? text : `nats://${text}`
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^(nats|tls):$/.test(parsed.protocol) || parsed.hostname === '')
    throw unshown(
      'servers',
      "addresses such as 'host:4222', 'nats://user:password@host:4222' or 'tls://host:4222'; an @, / or : in a password is written %40, %2F or %3A",
    )
  return parsed
}
