/** Vitest's global setup: one server for all files of a project, at MILLRACE_TEST_POSTGRES_URL. */
import { startPostgres } from './postgres.js'

export default async function setup(): Promise<() => Promise<void>> {
  const server = await startPostgres()
  process.env.MILLRACE_TEST_POSTGRES_URL = server.url
  return () => server.stop()
}
