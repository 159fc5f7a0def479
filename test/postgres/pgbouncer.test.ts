/** Through PgBouncer in transaction mode: each transaction may meet another server connection. */

import type { Signal } from 'millrace'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { WakeUps } from '../../src/databases/postgres/wake-ups.js'
import { type PgBouncer, startPgBouncer } from '../servers/pgbouncer.js'
import { freshSchema, open, serverUrl, sql } from './postgres.js'

let pooler: PgBouncer

beforeAll(async () => {
  pooler = await startPgBouncer(serverUrl(), { poolSize: 3 })
})
afterAll(() => pooler.stop())

test('opens, migrates and goes on, although it refuses our timeouts', async () => {
  const schema = freshSchema()
  const connection = await open({ url: pooler.url, schema })
  await connection.query(sql(`INSERT INTO ${schema}.meta VALUES ('k', $1)`), ['v'])
  expect((await connection.query(sql(`SELECT value FROM ${schema}.meta`))).rows).toEqual([{ value: 'v' }])
})

test('many more clients than server connections, with named statements', async () => {
  const connection = await open({ url: pooler.url, poolSize: 30 })
  const statement = { name: 'double', text: 'SELECT $1::int * 2 AS twice' }
  const answers = await Promise.all(
    Array.from({ length: 300 }, async (_, i) => (await connection.query(statement, [i])).rows[0].twice),
  )
  expect(answers).toEqual(Array.from({ length: 300 }, (_, i) => i * 2))
})

test('a transaction has our timeouts, and leaves none behind', async () => {
  const connection = await open({ url: pooler.url, lockTimeout: 1234 })
  const show = sql('SHOW lock_timeout')
  expect((await connection.transaction((transaction) => transaction.query(show))).rows).toEqual([
    { lock_timeout: '1234ms' },
  ])
  expect((await connection.query(show)).rows).toEqual([{ lock_timeout: '0' }])
})

test('nobody listens through it: workers poll', async () => {
  const schema = freshSchema()
  const heard: Signal[] = []
  const through = await open({ url: pooler.url, schema })
  const wakeUps = new WakeUps(through, { schema, listen: true }, (signal) => heard.push(signal))
  onTestFinished(() => wakeUps.stop())
  await wakeUps.start()
  wakeUps.ready(['mail'])
  expect(wakeUps.listening).toBe(false)
  expect(heard).toEqual([])
  const listening = await through.query(sql('SELECT pg_listening_channels() AS channel'))
  expect(listening.rows).toEqual([])
})

test('killed and started again: calls go on', async () => {
  const connection = await open({ url: pooler.url })
  await pooler.kill()
  const waiting = connection.query(sql('SELECT 1 AS one'))
  await pooler.start()
  expect((await waiting).rows).toEqual([{ one: 1 }])
})
