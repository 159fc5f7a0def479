import { postgresLog, type TableContext } from 'millrace/events'
import pg from 'pg'
import type { PostgresPlace } from '../place.js'
import { type Book, type BookTransaction, digests, type NotedEvent, type ReadModels } from './book.js'
import { eventsSettings } from './settings.js'

export function postgresBook({ url, schema }: PostgresPlace): Book {
  const own = `${schema}_own`
  const pool = new pg.Pool({
    connectionString: url,
    max: 16,
    application_name: 'writer',
    connectionTimeoutMillis: 2_000,
    query_timeout: 6_000,
    idle_in_transaction_session_timeout: 2_000,
    lock_timeout: 4_000,
  })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  const rowsOf = async (text: string) => (await pool.query(text)).rows
  return {
    log: () => postgresLog({ url, schema, ...eventsSettings.postgres }),
    async setUp() {
      await pool.query(`CREATE SCHEMA ${own}; CREATE TABLE ${own}.seen (
        n bigserial PRIMARY KEY, reader text NOT NULL, generation int NOT NULL, position bigint NOT NULL, key text NOT NULL)`)
    },
    async begin() {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
      } catch (error) {
        client.release(true)
        throw error
      }
      return transaction(client)
    },
    models: modelsIn(own),
    count: async () => (await rowsOf(`SELECT count(*)::int AS count FROM ${schema}.event`))[0].count,
    async events() {
      const rows = await rowsOf(
        `SELECT position::float8, stream, version::float8, type, data FROM ${schema}.event ORDER BY position`,
      )
      return rows.map(({ data, ...event }) => ({ ...event, ...JSON.parse(data) }))
    },
    sightings: () => rowsOf(`SELECT reader, generation, position::float8, key FROM ${own}.seen ORDER BY n`),
    totals: (table) =>
      rowsOf(`SELECT stream, count, sum::float8, digest::float8, version::float8 FROM ${own}.${table}`),
    async tables() {
      const rows = await rowsOf(
        `SELECT tablename FROM pg_tables WHERE schemaname = '${own}' AND tablename <> 'seen'`,
      )
      return rows.map(({ tablename }) => tablename)
    },
    close: () => pool.end(),
  }
}

function transaction(client: pg.PoolClient): BookTransaction {
  let isOver = false
  const end = async (statement: string) => {
    if (isOver) return
    isOver = true
    try {
      await client.query(statement)
      client.release()
    } catch (error) {
      client.release(true)
      throw error
    }
  }
  return { tx: client, commit: () => end('COMMIT'), rollback: () => end('ROLLBACK') }
}

function modelsIn(own: string): ReadModels {
  const query = ({ tx }: Pick<TableContext, 'tx'>, text: string, values: unknown[] = []) =>
    tx<pg.PoolClient>().query(text, values)
  return {
    create: (context) =>
      query(
        context,
        `CREATE TABLE ${own}.${context.table} (stream text PRIMARY KEY, count int NOT NULL, sum bigint NOT NULL,
           digest bigint NOT NULL, version bigint NOT NULL)`,
      ),
    drop: (context) => query(context, `DROP TABLE IF EXISTS ${own}.${context.table}`),
    note({ tx, table, generation }, reader, event) {
      const values = valuesOf(generation, reader, event)
      return tx<pg.PoolClient>().query({ name: `note_${table}`, text: noteIn(own, table), values })
    },
  }
}

function noteIn(own: string, table: string): string {
  return `WITH noted AS (INSERT INTO ${own}.seen (reader, generation, position, key) VALUES ($1, $2, $3, $4))
    INSERT INTO ${own}.${table} AS own (stream, count, sum, digest, version)
    VALUES ($5, 1, $6::int, $6::int % ${digests.modulus}, $7)
    ON CONFLICT (stream) DO UPDATE SET count = own.count + 1, sum = own.sum + excluded.sum,
      digest = (own.digest * ${digests.factor} + excluded.sum) % ${digests.modulus}, version = excluded.version`
}

function valuesOf(generation: number, reader: string, event: NotedEvent): unknown[] {
  const { position, stream, version, data } = event
  return [reader, generation, position, data.key, stream, data.amount, version]
}
