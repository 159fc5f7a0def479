/** What the harness needs of an engine beyond the store contract. One entry per engine. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { Store } from 'millrace'
import { PostgresStore } from 'millrace/postgres'
import { SqliteStore } from 'millrace/sqlite'
import pg from 'pg'
import { startPostgres } from '../servers/postgres.js'
import { startHog } from './hog.js'
import type { Engine, Place, PostgresPlace, RedisPlace, SqlitePlace } from './place.js'
import { redis, redisCluster } from './redis-engine.js'
import { settings } from './settings.js'

const sqlite: Engine<SqlitePlace> = {
  openMs: 40,
  prepare: async () => ({
    place: (folder) => ({ engine: 'sqlite', file: join(folder, 'jobs.db') }),
    close: async () => {},
  }),
  store: ({ file }) => new SqliteStore({ file }),
  async integrity({ file }) {
    const db = new Database(file)
    try {
      const rows = db.pragma('integrity_check') as { integrity_check: string }[]
      return rows.map((row) => row.integrity_check).join('; ')
    } finally {
      db.close()
    }
  },
  writable({ file }) {
    const db = new Database(file, { timeout: 300 })
    try {
      db.exec('BEGIN IMMEDIATE; ROLLBACK')
      return true
    } catch {
      return false
    } finally {
      db.close()
    }
  },
}

const postgres: Engine<PostgresPlace> = {
  openMs: 400,
  async prepare(values) {
    const server = await startPostgres({ durable: true, settings: { synchronous_commit: 'on', ...values } })
    if (server.dataDir === undefined)
      throw new Error('chaos kills its server; unset MILLRACE_POSTGRES_URL, so that it starts one of its own')
    let schemas = 0
    return {
      place: () => ({ engine: 'postgres', url: server.url, schema: `chaos_${++schemas}` }),
      server,
      close: () => server.stop(),
    }
  },
  store: ({ url, schema, hog }) =>
    new PostgresStore({
      ...(hog === undefined ? { url } : { pool: startHog(url, hog) }),
      schema,
      ...settings.postgres,
    }),
  integrity: ({ url, schema }) => withClient(url, (client) => damageOf(client, schema)),
  // The server ends the transaction of a process that has fallen silent.
  writable: () => true,
}

/** Reads each table, and compares each index with its table where the server brings the tool for it. */
async function damageOf(client: pg.Client, schema: string): Promise<string> {
  const { rows } = await client.query<{ name: string; kind: 'r' | 'i'; isTree: boolean }>(
    `SELECT c.oid::regclass::text AS name, c.relkind AS kind, a.amname = 'btree' AS "isTree"
     FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam
     WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'i')`,
    [`"${schema}"`],
  )
  try {
    for (const { name } of rows.filter(({ kind }) => kind === 'r'))
      await client.query(`SELECT count(t::text) FROM ${name} t`)
    const tools = await client.query(`SELECT FROM pg_available_extensions WHERE name = 'amcheck'`)
    if (tools.rowCount === 0) return 'ok'
    await client.query('CREATE EXTENSION IF NOT EXISTS amcheck')
    for (const { name } of rows.filter(({ isTree }) => isTree))
      await client.query('SELECT bt_index_check($1::regclass, true)', [name])
    return 'ok'
  } catch (error) {
    return String(error)
  }
}

export const engines = { sqlite, postgres, redis, 'redis-cluster': redisCluster }

export type EngineName = keyof typeof engines

export function openStore(place: Place): Store {
  return engineOf(place).store(place)
}

export function integrity(place: Place): Promise<string> {
  return engineOf(place).integrity(place)
}

export function writable(place: Place): boolean {
  return engineOf(place).writable(place)
}

function engineOf<P extends Place>(place: P): Engine<P> {
  return engines[place.engine] as Engine<never>
}

export function sqliteFile(place: Place): string {
  if (place.engine !== 'sqlite') throw new Error('this fault is for a file only')
  return place.file
}

export function postgresPlace(place: Place): PostgresPlace {
  if (place.engine !== 'postgres') throw new Error('this fault is for a server only')
  return place
}

/** On one server, which has an address. */
export function servedPlace(place: Place): PostgresPlace | RedisPlace {
  if (place.engine !== 'postgres' && place.engine !== 'redis')
    throw new Error('this fault is for a server only')
  return place
}

/** A connection that has nothing to do with those under attack. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: 'chaos' })
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
