/** Connections to the server of the project, each test in a schema of its own. */
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { type Connection, openConnection } from '../../src/databases/postgres/connection.js'
import { sqlState } from '../../src/databases/postgres/errors.js'
import { compileOptions, type PostgresOptions } from '../../src/databases/postgres/options.js'
import { planOf } from '../../src/stores/postgres/migrate.js'

export function serverUrl(): string {
  const url = process.env.MILLRACE_TEST_POSTGRES_URL
  if (url === undefined)
    throw new Error('this test belongs to a project with test/servers/global-postgres.ts')
  return url
}

/** Why tests that end the server do not run. */
export const notOurs = process.env.MILLRACE_POSTGRES_URL !== undefined

let names = 0

/** Dropped after the test. */
export function freshSchema(url = serverUrl()): string {
  const schema = `test_${process.pid}_${names++}`
  onTestFinished(async () => {
    await asAdmin((client) => client.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`), url)
  })
  return schema
}

/** The URL of a role of its own; dropped after the test with all that it has. */
export async function freshRole(attributes: string, url = serverUrl()): Promise<URL> {
  const role = `role_${process.pid}_${names++}`
  await asAdmin((client) => client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret' ${attributes}`), url)
  onTestFinished(async () => {
    await asAdmin((client) => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`), url)
  })
  const own = new URL(url)
  own.username = role
  own.password = 'secret'
  return own
}

/** Closed after the test. */
export async function open(options: PostgresOptions = {}): Promise<Connection> {
  const target = options.pool === undefined ? { url: serverUrl() } : {}
  const schema = options.schema ?? freshSchema(options.url)
  const connection = await openConnection(compileOptions({ ...target, ...options }, schema), planOf(schema))
  onTestFinished(() => connection.close())
  await makeNotes(connection, schema)
  return connection
}

/** A table that is the tests' own, beside those of the engine. */
async function makeNotes(connection: Connection, schema: string): Promise<void> {
  const text = `CREATE TABLE IF NOT EXISTS "${schema}".meta (key text PRIMARY KEY, value text NOT NULL)`
  await connection.query({ text }).catch((error: unknown) => {
    // Another one of the test is making it at this moment.
    if (!['23505', '42P07'].includes(sqlState(error) ?? '')) throw error
  })
}

export async function asAdmin<T>(work: (client: pg.Client) => Promise<T>, url = serverUrl()): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

export const sql = (text: string) => ({ text })

export function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'ok',
    (error) => error.code ?? error.message,
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
