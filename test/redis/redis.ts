/** Connections to the server of the project, each test with a prefix of its own. */
import { Redis } from 'ioredis'
import { RedisStore } from 'millrace/redis'
import { onTestFinished } from 'vitest'
import { type Connection, openConnection } from '../../src/stores/redis/connection.js'
import { compileOptions, type RedisOptions } from '../../src/stores/redis/options.js'
import { makeScript } from '../../src/stores/redis/script.js'

export function serverUrl(): string {
  const url = process.env.MILLRACE_TEST_REDIS_URL
  if (url === undefined) throw new Error('this test belongs to a project with test/servers/global-redis.ts')
  return url
}

let names = 0

export function freshPrefix(): string {
  return `test_${process.pid}_${names++}`
}

/** Closed after the test. */
export async function open(options: RedisOptions = {}, shard = 0): Promise<Connection> {
  const target = options.client === undefined ? { url: serverUrl() } : {}
  const compiled = compileOptions({ ...target, prefix: freshPrefix(), warn: false, ...options })
  const connection = await openConnection(compiled, shard)
  onTestFinished(() => connection.close())
  return connection
}

/** Closed after the test. */
export async function openStore(
  options: Pick<RedisOptions, 'prefix' | 'clock' | 'shards'> = {},
): Promise<RedisStore> {
  const store = new RedisStore({ url: serverUrl(), prefix: freshPrefix(), warn: false, ...options })
  onTestFinished(() => store.close())
  await store.open()
  return store
}

/** A few commands to that server, on a connection that no store knows of. */
export async function admin<T>(work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(serverUrl(), { retryStrategy: () => null })
  redis.on('error', () => {}) // the command tells
  try {
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}

export const scripts = {
  echo: makeScript('echo', 'return { KEYS[1], KEYS[2], ARGV[1] or false, 5 }'),
  /** Done once for each name, however often it is asked for. */
  once: makeScript('once', "return redis.call('SADD', KEYS[1] .. ':names', ARGV[1])"),
  names: makeScript('names', "return redis.call('SMEMBERS', KEYS[1] .. ':names')"),
  count: makeScript('count', "return redis.call('SCARD', KEYS[1] .. ':names')"),
  clear: makeScript('clear', "return redis.call('DEL', KEYS[1] .. ':names')"),
  push: makeScript('push', "return redis.call('RPUSH', ARGV[1], ARGV[2])"),
  add: makeScript('add', "return redis.call('INCR', KEYS[1] .. ':calls')"),
}

export function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'ok',
    (error) => error.code ?? error.message,
  )
}

/** What it is rejected with. */
export function errorOf(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => new Error('it was not rejected'),
    (error) => error,
  )
}

/** A promise to resolve by hand. */
export function signal<T = void>() {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((r) => {
    resolve = r
  })
  return { promise, resolve }
}
