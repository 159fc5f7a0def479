/** Vitest's global setup: one cluster for all files of a project, at MILLRACE_TEST_REDIS_CLUSTER: host:port,… */
import { startRedisCluster } from './redis-cluster.js'

export default async function setup(): Promise<() => Promise<void>> {
  const cluster = await startRedisCluster({ appendfsync: 'off' })
  process.env.MILLRACE_TEST_REDIS_CLUSTER = cluster.addresses
    .map(({ host, port }) => `${host}:${port}`)
    .join()
  return () => cluster.stop()
}
