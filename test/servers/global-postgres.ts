/**
 * Vitest's global setup: one server for all files of a project, at MILLRACE_TEST_POSTGRES_URL. MILLRACE_TEST_SCHEMAS is
 * a folder where they say which schemas are free.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from './postgres.js'

export default async function setup(): Promise<() => Promise<void>> {
  const server = await startPostgres()
  const schemas = mkdtempSync(join(tmpdir(), 'millrace-schemas-'))
  process.env.MILLRACE_TEST_POSTGRES_URL = server.url
  process.env.MILLRACE_TEST_SCHEMAS = schemas
  return async () => {
    rmSync(schemas, { recursive: true, force: true })
    await server.stop()
  }
}
