/** A Redis Cluster on the loopback: three masters, each with a replica, that fail over within seconds. */

import { type RedisServerOptions, startOwnRedis } from './redis.js'
import { clusterOf, type RedisCluster } from './redis-cluster-handle.js'
import { viewOf } from './redis-cluster-view.js'
import { ask, type RedisSettings, startAll, stopAll } from './redis-process.js'
import { until } from './until.js'

export type { RedisCluster } from './redis-cluster-handle.js'

export interface RedisClusterOptions {
  /** A master that says nothing for so long is down. @default 2000 */
  readonly nodeTimeoutMs?: number
  /** Of each node. Without a log, a master that is back before it was replaced empties its replica. @default 'everysec' */
  readonly appendfsync?: RedisServerOptions['appendfsync']
  /** Of each node. */
  readonly settings?: RedisSettings
}

export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const nodes = await startAll(Array.from({ length: 2 * masters }, () => startNode(options)))
  try {
    const ports = nodes.map(({ port }) => port)
    await shareSlots(ports)
    await meet(ports)
    await replicate(ports)
    const cluster = clusterOf(nodes)
    await cluster.settled()
    return cluster
  } catch (error) {
    await stopAll(nodes)
    throw error
  }
}

const masters = 3
const slots = 16_384
const patienceMs = 20_000

function startNode({ nodeTimeoutMs = 2_000, appendfsync = 'everysec', settings }: RedisClusterOptions) {
  return startOwnRedis({
    appendfsync,
    settings: {
      'cluster-enabled': 'yes',
      'cluster-config-file': 'nodes.conf',
      'cluster-node-timeout': nodeTimeoutMs,
      // A replica stays with its master, so that tests know who is whose.
      'cluster-migration-barrier': 100,
      ...settings,
    },
  })
}

/** Different epochs from the start: nodes that meet with the same one would first have to agree. */
async function shareSlots(ports: readonly number[]): Promise<void> {
  for (const [n, port] of ports.entries()) {
    await ask(port, async (redis) => {
      await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', n + 1)
      const own = n < masters ? slotsOf(n) : []
      if (own.length > 0) await redis.call('CLUSTER', 'ADDSLOTS', ...own)
    })
  }
}

function slotsOf(n: number): number[] {
  const [from, to] = [Math.floor((slots * n) / masters), Math.floor((slots * (n + 1)) / masters)]
  return Array.from({ length: to - from }, (_, i) => from + i)
}

async function meet(ports: readonly number[]): Promise<void> {
  const [first, ...others] = ports as [number, ...number[]]
  await ask(first, async (redis) => {
    for (const port of others) await redis.call('CLUSTER', 'MEET', '127.0.0.1', port)
  })
  for (const port of ports) {
    await until(`node ${port} knows all others`, patienceMs, async () => {
      const known = (await viewOf(port)).filter((node) => node.linked && !node.flags.includes('handshake'))
      return known.length === ports.length ? true : undefined
    })
  }
}

async function replicate(ports: readonly number[]): Promise<void> {
  for (const [n, port] of ports.slice(masters).entries()) {
    await ask(port, async (redis) => {
      const master = (await viewOf(port)).find((node) => node.port === ports[n])
      await redis.call('CLUSTER', 'REPLICATE', master?.id ?? '')
    })
  }
}
