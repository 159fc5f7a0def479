/** Redis with sentinels: a primary, two replicas, and three that watch them and choose a new primary. */
import { type RedisServer, type RedisServerOptions, startOwnRedis } from './redis.js'
import {
  ask,
  type RedisProcess,
  type RedisSettings,
  startAll,
  startProcess,
  stopAll,
} from './redis-process.js'
import { until } from './until.js'

export interface RedisSentinelOptions {
  /** A primary that says nothing for so long is down. @default 1000 */
  readonly downAfterMs?: number
  /** Of the three servers. @default 'everysec' */
  readonly appendfsync?: RedisServerOptions['appendfsync']
  /** Of the three servers. */
  readonly settings?: RedisSettings
}

export interface RedisSentinel {
  /** By which the sentinels know them: `name` for ioredis. */
  readonly masterName: string
  /** Where the sentinels are: `sentinels` for ioredis. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** The three, each of which can be killed and started; the first was the primary at the start. */
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisProcess[]
  /** What the sentinels take for the primary now. */
  primary(): Promise<RedisServer>
  /** What they take for its replicas; a dead one still is one. */
  replicas(): Promise<RedisServer[]>
  /** Does what makes the primary go; resolves with the next one, when the sentinels have made it that. */
  afterSwitch(cause: () => Promise<unknown>): Promise<RedisServer>
  stop(): Promise<void>
}

export async function startRedisSentinel(options: RedisSentinelOptions = {}): Promise<RedisSentinel> {
  const servers = await startServers(options)
  let sentinels: RedisProcess[] = []
  try {
    const [primary] = servers as [RedisServer]
    sentinels = await startAll(
      Array.from({ length: 3 }, () =>
        startProcess({
          settings: watching(primary.port, options.downAfterMs ?? 1_000),
          flags: ['--sentinel'],
        }),
      ),
    )
    await Promise.all(sentinels.map(({ port }) => knowsAll(port)))
    return handle(servers, sentinels)
  } catch (error) {
    await stopAll([...sentinels, ...servers])
    throw error
  }
}

const masterName = 'millrace'
const quorum = 2
const patienceMs = 20_000

async function startServers({ appendfsync = 'everysec', settings = {} }: RedisSentinelOptions) {
  const own = { appendfsync, settings }
  const primary = await startOwnRedis(own)
  const replicaOf = { port: primary.port }
  try {
    const replicas = await startAll([1, 2].map(() => startOwnRedis({ ...own, replicaOf })))
    return [primary, ...replicas]
  } catch (error) {
    await primary.stop()
    throw error
  }
}

function watching(port: number, downAfterMs: number): RedisSettings {
  return {
    'sentinel monitor': `${masterName} 127.0.0.1 ${port} ${quorum}`,
    [`sentinel down-after-milliseconds ${masterName}`]: downAfterMs,
    [`sentinel failover-timeout ${masterName}`]: 5 * downAfterMs,
    [`sentinel parallel-syncs ${masterName}`]: 2,
  }
}

/** It has met the others, and both replicas are in sync: a failover can begin. */
function knowsAll(port: number): Promise<true> {
  return until(`sentinel ${port} knows the others`, patienceMs, () =>
    ask(port, async (redis) => {
      const sentinels = (await redis.call('SENTINEL', 'SENTINELS', masterName)) as string[][]
      const replicas = (await redis.call('SENTINEL', 'REPLICAS', masterName)) as string[][]
      const inSync = replicas.map(fields).filter((replica) => replica['master-link-status'] === 'ok')
      return sentinels.length === 2 && inSync.length === 2 ? true : undefined
    }),
  )
}

function handle(servers: readonly RedisServer[], sentinels: readonly RedisProcess[]): RedisSentinel {
  const serverAt = (port: number) => {
    const server = servers.find((one) => one.port === port)
    if (server === undefined) throw new Error(`no server of ours is on port ${port}`)
    return server
  }
  const watcher = () => {
    const sentinel = sentinels.find(({ running }) => running)
    if (sentinel === undefined) throw new Error('no sentinel runs')
    return sentinel.port
  }
  return {
    masterName,
    addresses: sentinels.map(({ host, port }) => ({ host, port })),
    servers,
    sentinels,
    primary: () =>
      ask(watcher(), async (redis) => {
        const address = (await redis.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName)) as string[]
        return serverAt(Number(address[1]))
      }),
    replicas: () =>
      ask(watcher(), async (redis) => {
        const replicas = (await redis.call('SENTINEL', 'REPLICAS', masterName)) as string[][]
        return replicas.map((replica) => serverAt(Number(fields(replica).port)))
      }),
    afterSwitch: async (cause) => serverAt(await switched(watcher(), cause)),
    stop: () => stopAll([...sentinels, ...servers]),
  }
}

/** The port of the next primary, as one sentinel tells it: "millrace 127.0.0.1 OLD 127.0.0.1 NEW". */
function switched(watcher: number, cause: () => Promise<unknown>): Promise<number> {
  return ask(watcher, async (redis) => {
    const told = new Promise<number>((resolve, reject) => {
      redis.once('message', (_channel, message) => resolve(Number(message.split(' ')[4])))
      redis.once('end', () => reject(new Error('the sentinel is gone')))
      setTimeout(() => reject(new Error(`no new primary after ${patienceMs / 1000} s`)), patienceMs).unref()
    })
    told.catch(() => {}) // also while `cause` is under way
    await redis.subscribe('+switch-master')
    await cause()
    return told
  })
}

/** Of a flat list: name, value, name, value. */
function fields(list: readonly string[]): Record<string, string> {
  return Object.fromEntries(list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1] ?? '']] : [])))
}
