/** One server whose log is flushed with each write, or a cluster of three masters with a replica each. */
import { Cluster, type Redis } from 'ioredis'
import { RedisStore } from 'millrace/redis'
import { startRedis } from '../servers/redis.js'
import { type RedisCluster, startRedisCluster } from '../servers/redis-cluster.js'
import { owns, viewOf } from '../servers/redis-cluster-view.js'
import { ask } from '../servers/redis-process.js'
import type { Engine, Ground, Place, RedisPlace } from './place.js'
import { damageOf } from './redis-damage.js'
import { settings } from './settings.js'

const common = {
  openMs: 200,
  store,
  integrity,
  // A script runs to its end, whatever becomes of who sent it.
  writable: () => true,
}

export const redis: Engine<RedisPlace> = {
  ...common,
  async prepare(values) {
    const { appendfsync = 'always', ...others } = values
    const server = await startRedis({
      appendfsync: appendfsync as 'always' | 'everysec' | 'no',
      settings: others,
    })
    if (server.dataDir === undefined)
      throw new Error('chaos kills its server; unset MILLRACE_REDIS_URL, so that it starts one of its own')
    return { ...groundOf(server.url, 'redis'), server, close: () => server.stop() }
  },
}

export const redisCluster: Engine<RedisPlace> = {
  ...common,
  async prepare(values) {
    const cluster = await startRedisCluster({ nodeTimeoutMs: 1_000, settings: values })
    return { ...groundOf(urlOf(cluster), 'redis-cluster'), cluster, close: () => cluster.stop() }
  },
}

async function integrity(place: RedisPlace): Promise<string> {
  const damage = await Promise.all(
    rootsOf(place).map((root) => askMaster(place, (redis) => damageOf(redis, root), root)),
  )
  return damage.find((found) => found !== 'ok') ?? 'ok'
}

function urlOf({ nodes }: RedisCluster): string {
  return `redis+cluster://${nodes.map(({ host, port }) => `${host}:${port}`).join()}`
}

export function groundOf(url: string, engine: RedisPlace['engine']): Pick<Ground, 'place'> {
  let places = 0
  return { place: () => ({ engine, url, prefix: `chaos_${++places}` }) }
}

function store({ engine, url, prefix, wait, nodes }: RedisPlace): RedisStore {
  return new RedisStore({
    ...(nodes === undefined ? { url } : { client: mapped(nodes) }),
    ...(wait !== undefined && { durability: { wait } }),
    prefix,
    shards: shardsOf[engine],
    warn: false,
    ...settings.redis,
  })
}

/** Only a pattern: it never connects. */
function mapped(nodes: NonNullable<RedisPlace['nodes']>): Cluster {
  return new Cluster(Object.values(nodes), { lazyConnect: true, natMap: { ...nodes } })
}

export function redisPlace(place: Place): RedisPlace {
  if (place.engine !== 'redis' && place.engine !== 'redis-cluster')
    throw new Error('this fault is for Redis only')
  return place
}

/** Over how many slots a store is spread. */
const shardsOf = { redis: 1, 'redis-cluster': 3 } as const

/** The keys that scripts name, one in each shard; all others have the hash tag of one of them. */
export function rootsOf({ engine, prefix }: RedisPlace): string[] {
  return Array.from({ length: shardsOf[engine] }, (_, shard) => `{${prefix}:${shard}}`)
}

/** A few commands to the server that has a shard, on a connection that has nothing to do with those under attack. */
export async function askMaster<T>(
  place: RedisPlace,
  work: (redis: Redis) => Promise<T>,
  root = rootsOf(place)[0] as string,
): Promise<T> {
  const [first = 0, ...others] = portsOf(place)
  if (place.engine === 'redis') return ask(first, work)
  const slot = await ask(first, (redis) => redis.cluster('KEYSLOT', root))
  for (const port of [first, ...others]) {
    const self = (await viewOf(port)).find(({ isMyself }) => isMyself)
    if (self !== undefined && owns(self, slot)) return ask(port, work)
  }
  throw new Error(`nobody has slot ${slot}`)
}

/** Of all servers of a place. */
export function portsOf({ url }: RedisPlace): number[] {
  return [...url.matchAll(/:(\d+)/g)].map(([, port]) => Number(port))
}
