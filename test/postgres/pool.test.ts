/** The caller's own pool. */
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { asAdmin, codeOf, freshSchema, open, serverUrl, sql } from './postgres.js'

test('is used and never ended', async () => {
  const pool = callersPool()
  const connection = await open({ pool })
  await connection.transaction((transaction) => transaction.query(sql('SELECT 1')))
  await connection.close()
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  expect(pool.idleCount).toBe(pool.totalCount)
})

test('gives values in our types, whatever its owner has told the driver', async () => {
  const pool = callersPool({ types: { getTypeParser: () => () => 'spoiled' } })
  const connection = await open({ pool })
  expect((await connection.query(sql('SELECT 7::bigint AS n'))).rows).toEqual([{ n: 7 }])
})

test('has our timeouts in transactions and keeps its own outside', async () => {
  const pool = callersPool({ max: 1 })
  const connection = await open({ pool, lockTimeout: 1234 })
  const show = sql('SHOW lock_timeout')
  const inside = await connection.transaction((transaction) => transaction.query(show))
  expect(inside.rows).toEqual([{ lock_timeout: '1234ms' }])
  expect((await connection.query(show)).rows).toEqual([{ lock_timeout: '0' }])
})

test('prepares nothing under a name: its connections are not ours alone', async () => {
  const connection = await open({ pool: callersPool({ max: 1 }) })
  await connection.query({ name: 'named', text: 'SELECT 1' })
  expect((await connection.query(sql('SELECT name FROM pg_prepared_statements'))).rows).toEqual([])
})

test('exhausted: calls wait for a connection', async () => {
  const pool = callersPool({ max: 1 })
  const connection = await open({ pool })
  const held = await pool.connect()
  const waiting = connection.query(sql('SELECT 1 AS one'))
  while (pool.waitingCount === 0) await new Promise(setImmediate)
  held.release()
  expect((await waiting).rows).toEqual([{ one: 1 }])
})

test('exhausted for longer than patience: the call says so, and takes no connection afterwards', async () => {
  const pool = callersPool({ max: 1 })
  const connection = await open({ pool, patience: 50 })
  const held = await pool.connect()
  const error = await connection.query(sql('SELECT 1')).catch((thrown) => thrown)
  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(error.message).toContain('connections are in use')
  held.release()
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  expect(pool.idleCount).toBe(1)
})

test('ended by its owner: calls are refused', async () => {
  const pool = new pg.Pool({ connectionString: serverUrl() })
  const connection = await open({ pool, schema: freshSchema() })
  await pool.end()
  expect(await codeOf(connection.query(sql('SELECT 1')))).toBe('CLOSED')
})

test('whose backend is terminated under a transaction: done again, nothing crashes', async () => {
  const pool = callersPool()
  const connection = await open({ pool })
  let runs = 0
  await connection.transaction(async (transaction) => {
    const { rows } = await transaction.query(sql('SELECT pg_backend_pid() AS pid'))
    if (++runs > 1) return
    await asAdmin((client) => client.query('SELECT pg_terminate_backend($1)', [rows[0].pid]))
    await transaction.query(sql('SELECT 1'))
  })
  expect(runs).toBe(2)
})

function callersPool(config: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: serverUrl(), ...config })
  pool.on('error', () => {}) // as every owner of a pool has to
  onTestFinished(async () => {
    if (!pool.ended) await pool.end()
  })
  return pool
}
