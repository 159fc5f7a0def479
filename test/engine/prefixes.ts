/** Prefixes on the Redis server, or cluster, that all tests of the project share. */
import { randomUUID } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'

let client: Redis | Cluster | undefined

export function redisUrl(): string {
  const cluster = process.env.MILLRACE_TEST_REDIS_CLUSTER
  return cluster ? `redis+cluster://${cluster}` : (process.env.MILLRACE_TEST_REDIS_URL as string)
}

/** One that nobody else has. */
export function takePrefix(): string {
  return `test${randomUUID().slice(0, 13)}`
}

/** Removes all that is under it. */
export async function forgetPrefix(prefix: string): Promise<void> {
  const nodes = connect() instanceof Cluster ? (connect() as Cluster).nodes('master') : [connect() as Redis]
  for (const node of nodes) {
    let cursor = '0'
    do {
      const [next, keys] = await node.scan(cursor, 'MATCH', `{${prefix}:*`, 'COUNT', 10_000)
      for (const key of keys) await node.unlink(key)
      cursor = next
    } while (cursor !== '0')
  }
}

function connect(): Redis | Cluster {
  const cluster = process.env.MILLRACE_TEST_REDIS_CLUSTER
  client ??= cluster
    ? new Cluster(
        cluster
          .split(',')
          .map((address) => ({ host: address.split(':')[0], port: Number(address.split(':')[1]) })),
      )
    : new Redis(process.env.MILLRACE_TEST_REDIS_URL as string)
  return client
}
