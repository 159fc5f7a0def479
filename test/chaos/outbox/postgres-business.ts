import { postgresOutbox } from 'millrace/outbox'
import pg from 'pg'
import type { Business, BusinessTransaction } from './business.js'
import { outboxSettings } from './settings.js'

export function postgresBusiness(url: string, schema: string): Business {
  const pool = new pg.Pool({
    connectionString: url,
    max: 2,
    application_name: 'business',
    connectionTimeoutMillis: 2_000,
    query_timeout: 6_000,
    idle_in_transaction_session_timeout: 2_000,
    lock_timeout: 4_000,
  })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return {
    store: () => postgresOutbox({ url, schema, ...outboxSettings.postgres }),
    async setUp() {
      await pool.query(`CREATE SCHEMA IF NOT EXISTS ${schema};
        CREATE TABLE ${schema}.numbers (key text PRIMARY KEY, n int NOT NULL);
        CREATE TABLE ${schema}.orders (id text PRIMARY KEY, key text, n int NOT NULL)`)
    },
    async begin() {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
      } catch (error) {
        client.release(true)
        throw error
      }
      return transaction(client, schema)
    },
    async orders() {
      const { rows } = await pool.query(`SELECT id, key, n FROM ${schema}.orders`)
      return rows.map(({ id, key, n }) => ({ id, key: key ?? undefined, n }))
    },
    close: () => pool.end(),
  }
}

function transaction(client: pg.PoolClient, schema: string): BusinessTransaction {
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
  return {
    tx: client,
    async order(id, key) {
      const n = key === undefined ? 0 : await nextOf(client, schema, key)
      await client.query(`INSERT INTO ${schema}.orders VALUES ($1, $2, $3)`, [id, key ?? null, n])
      return { id, key, n }
    },
    async undone(work) {
      await client.query('SAVEPOINT doubt')
      await work()
      await client.query('ROLLBACK TO doubt')
    },
    commit: () => end('COMMIT'),
    rollback: () => end('ROLLBACK'),
  }
}

/** Whoever wants the next one waits until this transaction is over. */
async function nextOf(client: pg.PoolClient, schema: string, key: string): Promise<number> {
  const { rows } = await client.query(
    `INSERT INTO ${schema}.numbers AS own VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = own.n + 1 RETURNING n`,
    [key],
  )
  return rows[0].n
}
