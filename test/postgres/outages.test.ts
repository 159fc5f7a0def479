/** The server dies, the network fails: calls wait it out, and nothing of them is lost or left hanging. */
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Connection } from '../../src/databases/postgres/connection.js'
import { openConnection } from '../../src/databases/postgres/connection.js'
import { compileOptions } from '../../src/databases/postgres/options.js'
import { planOf } from '../../src/stores/postgres/migrate.js'
import { startPgBouncer } from '../servers/pgbouncer.js'
import { type PostgresServer, startPostgres } from '../servers/postgres.js'
import { type FaultyProxy, startProxy } from '../servers/proxy.js'
import { asAdmin, codeOf, freshRole, freshSchema, notOurs, open, sql } from './postgres.js'

let server: PostgresServer
let network: FaultyProxy
let url: string

beforeAll(async () => {
  server = await startPostgres({ durable: true })
  network = await startProxy(server.url)
  url = network.through(server.url)
})

beforeEach(() => network.heal())

afterAll(async () => {
  await network.close()
  await server.stop()
})

const admin = <T>(work: (client: pg.Client) => Promise<T>) => asAdmin(work, server.url)

describe('the network', () => {
  test.each(['cut', 'reset'] as const)('%s: a call goes on with another connection', async (fault) => {
    const connection = await openThrough()
    const before = await backend(connection)
    network[fault]()
    const after = backend(connection)
    await network.nextConnection()
    network.heal()
    expect(await after).not.toBe(before)
  })

  test('black hole: idle connections that are dead are not tried one by one', async () => {
    const connection = await openThrough({ statementTimeout: 100 })
    await Promise.all(Array.from({ length: 5 }, () => connection.query(sql('SELECT pg_sleep(0.05)'))))
    network.blackHole()
    network.heal() // for new connections only
    const start = performance.now()
    await backend(connection)
    // One deadline, of the one that was asked; two would be more than this.
    expect(performance.now() - start).toBeLessThan(4_000)
  })

  test('lost replies: what was done before is done again, once each', async () => {
    const schema = freshSchema(server.url)
    const connection = await openThrough({ schema, statementTimeout: 100 })
    const insert = sql(`INSERT INTO ${schema}.meta VALUES ($1, 'x') ON CONFLICT DO NOTHING`)
    network.dropReplies()
    network.heal() // for new connections only
    const inserted = await connection.query(insert, ['once'])
    expect(inserted.rowCount).toBe(0) // the first attempt had arrived
    expect((await connection.query(sql(`SELECT key FROM ${schema}.meta`))).rows).toEqual([{ key: 'once' }])
  })

  test('slow and late: calls take longer, and nothing else', async () => {
    const connection = await openThrough()
    network.delay(20, 15)
    network.slow(64_000)
    const text = 'x'.repeat(10_000)
    expect((await connection.query(sql('SELECT $1::text AS text'), [text])).rows).toEqual([{ text }])
  })

  test('lost inside a transaction: all of it is done again', async () => {
    const schema = freshSchema(server.url)
    const connection = await openThrough({ schema })
    let runs = 0
    await connection.transaction(async (transaction) => {
      await transaction.query(sql(`INSERT INTO ${schema}.meta VALUES ('k', $1)`), [`${++runs}`])
      if (runs === 1) network.reset()
      await transaction.query(sql('SELECT 1'))
    })
    expect((await connection.query(sql(`SELECT value FROM ${schema}.meta`))).rows).toEqual([{ value: '2' }])
  })

  test('fifty calls wait it out together, without a warning', async () => {
    const warned: Error[] = []
    const warn = (warning: Error) => warned.push(warning)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    const connection = await openThrough()
    network.cut()
    const calls = Promise.all(Array.from({ length: 50 }, () => connection.query(sql('SELECT 1'))))
    for (let tries = 0; tries < 60; tries++) await network.nextConnection()
    network.heal()
    expect(await calls).toHaveLength(50)
    expect(warned).toEqual([])
  })

  test('a process that was busy itself takes the answer that has come meanwhile', async () => {
    const connection = await openThrough({ url: server.url, statementTimeout: 1_000, poolSize: 1 })
    const before = await backend(connection)
    const answer = backend(connection)
    await new Promise(setImmediate) // asked
    const end = performance.now() + 3_100
    while (performance.now() < end);
    expect(await answer).toBe(before)
  })

  test('a server that stays away is told of when patience is over', async () => {
    const connection = await openThrough({ patience: 150 })
    network.cut()
    const error = await connection.query(sql('SELECT 1')).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', cause: expect.anything() })
    expect(error.message).toContain('check that the server is up')
  })

  test('closing does not wait for a server that does not answer', async () => {
    const connection = await openThrough()
    const waiting = codeOf(connection.query(sql('SELECT pg_sleep(1000)')))
    network.blackHole()
    await connection.close()
    expect(await waiting).toBe('CLOSED')
  })
})

describe('backends', () => {
  test('that are terminated are replaced, idle ones and those at work', async () => {
    const connection = await openThrough({ url: `${url}?application_name=doomed` })
    await Promise.all(Array.from({ length: 3 }, () => connection.query(sql('SELECT 1'))))
    const working = connection.query(sql(`SELECT pg_sleep(0.2), 'done' AS text`))
    await admin((client) =>
      client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'doomed'`,
      ),
    )
    expect((await working).rows).toMatchObject([{ text: 'done' }])
    expect(await codeOf(connection.query(sql('SELECT 1')))).toBe('ok')
  })

  test('that are terminated between two statements of a transaction crash nothing', async () => {
    const connection = await openThrough()
    let runs = 0
    const pid = await connection.transaction(async (transaction) => {
      const { rows } = await transaction.query(sql('SELECT pg_backend_pid() AS pid'))
      if (++runs === 1) {
        const ended = new Promise<void>((resolve) => transaction.client.on('error', () => resolve()))
        await admin((client) => client.query('SELECT pg_terminate_backend($1)', [rows[0].pid]))
        await ended
      }
      return (await transaction.query(sql('SELECT pg_backend_pid() AS pid'))).rows[0].pid
    })
    expect(runs).toBe(2)
    expect(pid).toBeGreaterThan(0)
  })

  test('too many of them: calls wait until there is room', async () => {
    const { href, username } = await freshRole('CONNECTION LIMIT 1', server.url)
    const schema = freshSchema(server.url)
    await admin((client) => client.query(`CREATE SCHEMA ${schema} AUTHORIZATION ${username}`))
    const holder = new pg.Client({ connectionString: href })
    await holder.connect()
    const opening = open({ url: network.through(href), schema, poolSize: 1 })
    for (let tries = 0; tries < 2; tries++) await network.nextConnection()
    await holder.end()
    expect(await backend(await opening)).toBeGreaterThan(0)
  })
})

describe.skipIf(notOurs)('the server (of our own only: it is killed)', () => {
  test('killed and started again: calls go on, acknowledged ones are kept', async () => {
    const schema = freshSchema(server.url)
    const connection = await openThrough({ schema })
    const insert = sql(`INSERT INTO ${schema}.meta VALUES ($1, 'x') ON CONFLICT DO NOTHING`)
    const written: string[] = []
    let stop = false
    const writing = Array.from({ length: 4 }, async (_, writer) => {
      for (let i = 0; !stop; i++) {
        await connection.query(insert, [`${writer}-${i}`])
        written.push(`${writer}-${i}`)
      }
    })
    for (let kills = 0; kills < 3; kills++) {
      const before = written.length
      while (written.length < before + 20) await connection.query(sql('SELECT 1'))
      await server.kill()
      await server.start()
    }
    stop = true
    await Promise.all(writing)
    const { rows } = await connection.query<{ key: string }>(sql(`SELECT key FROM ${schema}.meta`))
    const kept = new Set(rows.map((row) => row.key))
    expect(written.filter((key) => !kept.has(key))).toEqual([])
  })

  test('killed behind PgBouncer: calls go on when both are back', async () => {
    const pooler = await startPgBouncer(server.url, { settings: { server_login_retry: 1 } })
    onTestFinished(() => pooler.stop())
    const connection = await open({ url: pooler.url, schema: freshSchema(server.url) })
    const working = connection.query(sql(`SELECT pg_sleep(0.5), 'done' AS text`))
    await admin(async (client) => {
      const asleep = `SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(0.5)%'`
      while ((await client.query(asleep)).rowCount === 0);
    })
    await server.kill()
    const waiting = connection.query(sql('SELECT 1 AS one'))
    await server.start()
    expect((await working).rows).toMatchObject([{ text: 'done' }])
    expect((await waiting).rows).toEqual([{ one: 1 }])
  })

  test('absent at the start: opening waits for it', async () => {
    await server.kill()
    network.cut() // says when it was tried
    const opening = openThrough()
    await network.nextConnection()
    network.heal()
    await server.start()
    expect(await backend(await opening)).toBeGreaterThan(0)
  })

  test('absent for good: opening says so', async () => {
    await server.kill()
    onTestFinished(() => server.start())
    const opening = openConnection(
      compileOptions({ url: server.url, patience: 100 }, 'nowhere'),
      planOf('nowhere'),
    )
    await expect(opening).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  test('read-only, as after a fail-over: calls wait for one that takes writes', async () => {
    const schema = freshSchema(server.url)
    const connection = await openThrough({ schema })
    await setReadOnly('on')
    const insert = connection.query(sql(`INSERT INTO ${schema}.meta VALUES ('k', 'v')`))
    await network.nextConnection() // the connection to the standby was dropped
    await setReadOnly('off')
    expect((await insert).rowCount).toBe(1)
  })

  test('read-only for good: the call says so', async () => {
    const connection = await openThrough({ patience: 100 })
    await setReadOnly('on')
    onTestFinished(() => setReadOnly('off'))
    const error = await connection.query(sql('CREATE TABLE nothing ()')).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(error.message).toContain('primary')
  })
})

function openThrough(options: Parameters<typeof open>[0] = {}): Promise<Connection> {
  return open({ url, schema: freshSchema(server.url), ...options })
}

async function backend(connection: Connection): Promise<number> {
  return (await connection.query(sql('SELECT pg_backend_pid() AS pid'))).rows[0].pid
}

async function setReadOnly(value: 'on' | 'off'): Promise<void> {
  await admin(async (client) => {
    await client.query('SET transaction_read_only = off')
    await client.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`)
    await client.query('SELECT pg_reload_conf()')
  })
  // Sessions hear of it when they are next asked something; a new one starts with it.
  for (;;) {
    const { rows } = await admin((client) => client.query('SHOW default_transaction_read_only'))
    if (rows[0].default_transaction_read_only === value) return
  }
}
