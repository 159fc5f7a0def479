import type { Clock } from '../../core/clock.js'
import { type Duration, milliseconds } from '../../core/duration.js'
import { integer, invalid, noUnknown, unshown } from '../../core/options.js'
import type { RedisPattern } from './driver.js'
import { type CompiledDurability, compileDurability, type Durability } from './durability.js'
import { parseUrl, type Target } from './url.js'

export interface RedisOptions {
  /**
   * `redis://user:password@host:port/db`, `redis+sentinel://host:port,host:port/name` or
   * `redis+cluster://host:port,host:port`; `rediss` for TLS. Either this or `client`.
   */
  readonly url?: string
  /**
   * The caller's own `Redis` or `Cluster` of `ioredis`: ours are made with its settings, but for those about retries,
   * queues and time-outs, which Millrace decides. It is not used itself, and never ended. For what a URL cannot say:
   * a Unix socket, certificates of your own, a password of the sentinels.
   */
  readonly client?: RedisPattern
  /** What all keys begin with. @default 'millrace' */
  readonly prefix?: string
  /**
   * How many slots the jobs are spread over: on a cluster, so many nodes can share the work. Fixed when the store is made.
   * What has to do with nothing but itself is spread; see docs/adr/0024-shards.md for what is not. @default 1
   */
  readonly shards?: number
  /** How long a call goes on trying while the server cannot be reached; 0 tries once. @default '30s' */
  readonly patience?: Duration
  /** A server that says nothing for longer is taken for lost. @default '10s' */
  readonly commandTimeout?: Duration
  /** Who must have a write before it is acknowledged, besides the server itself. @default 'none' */
  readonly durability?: Durability
  /**
   * Whether a connection of its own waits for what other processes do; otherwise workers find out by polling.
   * @default true
   */
  readonly listen?: boolean
  /** Whether `process.emitWarning` says what the server may lose. @default true */
  readonly warn?: boolean
  /** @default the server's clock */
  readonly clock?: Clock
}

export interface CompiledOptions {
  readonly target: Target | undefined
  readonly client: RedisPattern | undefined
  readonly prefix: string
  readonly shards: number
  readonly patience: number
  readonly timeouts: Timeouts
  readonly durability: CompiledDurability | undefined
  readonly listen: boolean
  readonly warn: boolean
  readonly clock: Clock | undefined
}

export interface Timeouts {
  /** How long the server may say nothing while it is asked something. */
  readonly answer: number
  /** To get a connection. */
  readonly connect: number
}

const defaults = {
  prefix: 'millrace',
  shards: 1,
  patience: '30s',
  commandTimeout: '10s',
  durability: 'none',
  listen: true,
  warn: true,
} as const

const known = [...Object.keys(defaults), 'url', 'client', 'clock']

export function compileOptions(raw: RedisOptions): CompiledOptions {
  noUnknown(raw, known, 'redis')
  checkTarget(raw)
  const answer = timeout(raw.commandTimeout ?? defaults.commandTimeout)
  return {
    target: raw.url === undefined ? undefined : parseUrl(raw.url),
    client: raw.client,
    prefix: checkPrefix(raw.prefix ?? defaults.prefix),
    shards: integer(raw.shards ?? defaults.shards, 'shards', 1, mostShards),
    patience: milliseconds(raw.patience ?? defaults.patience, 'patience'),
    timeouts: { answer, connect: connectMs },
    durability: compileDurability(raw.durability ?? defaults.durability, answer),
    listen: flag(raw.listen ?? defaults.listen, 'listen'),
    warn: flag(raw.warn ?? defaults.warn, 'warn'),
    clock: raw.clock,
  }
}

const connectMs = 5_000

/** Each has two connections of each process. */
const mostShards = 64

function checkTarget({ url, client, prefix }: RedisOptions): void {
  if ((url === undefined) === (client === undefined)) throw unshown('url', 'either it or client')
  if (client === undefined) return
  const { options, duplicate, call } = (client ?? {}) as Partial<RedisPattern> & { call?: unknown }
  if (typeof duplicate !== 'function' || typeof call !== 'function' || !options)
    throw unshown('client', 'a Redis or a Cluster of ioredis')
  const { keyPrefix = '', redisOptions } = options as Prefixed & { redisOptions?: Prefixed }
  const others = keyPrefix || redisOptions?.keyPrefix
  // It may be all that keeps two applications apart.
  if (others && prefix === undefined)
    throw invalid(
      'client.options.keyPrefix',
      others,
      "a prefix of Millrace's own beside it: it names its keys itself, so say prefix: '…' too",
    )
}

interface Prefixed {
  readonly keyPrefix?: string
}

const longest = 48

/** It becomes a part of hash tags and of what scripts put together, so an allow-list decides. */
function checkPrefix(prefix: string): string {
  if (typeof prefix !== 'string' || !/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(prefix) || prefix.length > longest)
    throw invalid(
      'prefix',
      prefix,
      `1 to ${longest} letters, digits, '_', '-' or '.', starting with a letter, digit or '_'`,
      longest,
    )
  return prefix
}

function flag(value: boolean, field: string): boolean {
  if (typeof value !== 'boolean') throw invalid(field, value, 'true or false')
  return value
}

function timeout(value: Duration): number {
  return integer(milliseconds(value, 'commandTimeout'), 'commandTimeout', 10, 2 ** 31 - 1)
}
