/**
 * As much of `ioredis` as the engine uses, in types of our own: the caller's client may come from another copy of it,
 * and whoever uses another engine needs neither it nor its types.
 */
import { MillraceError } from '../../core/errors.js'

/** One connection. It is never connected again: a lost one is replaced by a new client. */
export interface RedisClient {
  connect(): Promise<unknown>
  disconnect(): void
  call(command: string, args: (string | number)[]): Promise<unknown>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
}

/** The caller's own `Redis` or `Cluster`: only its settings are used. */
export interface RedisPattern {
  readonly options: object
  readonly isCluster: boolean
  // biome-ignore lint/suspicious/noExplicitAny: the two kinds take different arguments
  duplicate(...args: any[]): unknown
}

export type RedisDriver = new (options: object) => RedisClient

export async function loadDriver(): Promise<RedisDriver> {
  try {
    return (await import('ioredis')).Redis
  } catch (error) {
    throw new MillraceError('DRIVER_MISSING', 'the Redis engine needs its driver: npm install ioredis', {
      cause: error,
    })
  }
}

/**
 * Whatever the caller's client does, ours leave all decisions to us: only we know that a call may be done again, and
 * for how long.
 */
export const settings = {
  /** Connected by `connect`, so that we hear how that went. */
  lazyConnect: true,
  /** Never by itself: each connection is greeted first, and may have to lead to another server. */
  retryStrategy: null,
  /** Commands fail with their connection, and are not kept for another one. */
  maxRetriesPerRequest: null,
  autoResendUnfulfilledCommands: false,
  /** What cannot be sent now fails now: in a queue nobody would watch its deadline. */
  enableOfflineQueue: false,
  /** Our greeting finds out about LOADING, and needs no INFO. */
  enableReadyCheck: false,
  /** What an error means is decided in errors.ts. */
  reconnectOnError: null,
  /** The deadlines are ours: theirs leave the connection as it is. */
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  /** It would put calls into pipelines that are done again as a whole. All of a turn is one packet anyway. */
  enableAutoPipelining: false,
  /** Names have our own prefix, and scripts make names of names. */
  keyPrefix: '',
  /** The same replies from both majors. */
  protocol: 2,
  stringNumbers: false,
  readOnly: false,
  monitor: false,
  connectionName: 'millrace',
  /** Saves two commands of each connection that not every server knows. */
  disableClientInfo: true,
  noDelay: true,
  /** Finds out about idle connections that are dead; our own deadlines find the busy ones. */
  keepAlive: 10_000,
  /** Sentinels are all asked once for each attempt; the next one is ours. */
  sentinelRetryStrategy: null,
  role: 'master',
  /** Would be a connection more to each sentinel. We notice by READONLY and by the end of the connection. */
  failoverDetector: false,
} as const

interface Socket {
  destroy(): void
  cork(): void
  uncork(): void
  ref(): void
  unref(): void
  on(event: 'data', listener: () => void): unknown
}

export function socketOf(client: RedisClient): Socket | undefined {
  return (client as { stream?: Socket }).stream
}

/** Destroys the socket. A half-open one would never answer a goodbye. */
export function sever(client: RedisClient): void {
  if ((client as { status?: string }).status === 'end') return
  client.disconnect() // also while it is still looking for its server
  socketOf(client)?.destroy()
}
