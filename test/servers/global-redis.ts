/** Vitest's global setup: one server for all files of a project, at MILLRACE_TEST_REDIS_URL. */
import { startRedis } from './redis.js'

export default async function setup(): Promise<() => Promise<void>> {
  const server = await startRedis()
  process.env.MILLRACE_TEST_REDIS_URL = server.url
  return () => server.stop()
}
