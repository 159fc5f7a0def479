/** What only an event log on a server has: callers' libraries, its clock, poolers, lost answers, schemas. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Append, EventLog } from '../../src/events/log.js'
import { postgresLog } from '../../src/events/logs/postgres/index.js'
import { append, nameOf, namesOf, newAppend, newEvent, page, readAll, versionOf } from '../events/logs.js'
import { type PgBouncer, startPgBouncer } from '../servers/pgbouncer.js'
import { until } from '../servers/until.js'
import { libraries } from './libraries.js'
import { asAdmin, codeOf, freshSchema, open, serverUrl } from './postgres.js'

type Options = Parameters<typeof postgresLog>[0]

async function openLog(options: Options = {}): Promise<EventLog> {
  const log = postgresLog({ url: serverUrl(), schema: freshSchema(), poolSize: 4, ...options })
  onTestFinished(() => log.close())
  await log.open()
  return log
}

async function connected(): Promise<pg.Client> {
  const client = new pg.Client(serverUrl())
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end().catch(() => {}))
  return client
}

describe('in transactions of', () => {
  for (const [name, make] of Object.entries(libraries)) {
    test(`${name}: events, checkpoints and projections come with the commit`, async () => {
      const log = await openLog()
      const library = await make()
      onTestFinished(async () => void (await library.close()))
      await append(log, 'a', 'none', 2)
      await log.declare({ name: 'p', parts: 1, after: 0 })
      const part = { name: 'p', generation: 1, part: 0, token: 't' }
      await log.hold({ ...part, owner: 'w', lease: 60_000 })
      const data = '{"é":"☃ \\u0000 \'\\\\ $1"}'
      const events = [newEvent({ data, meta: data, schema: 7 }), newEvent()]
      const work = async (tx: unknown) => {
        const given = newAppend("Straße-'1\\", 'none', events)
        const results = await log.append([given, newAppend('a', 5), newAppend('a', 2), given], tx)
        expect(results.map(({ status, version }) => `${status} ${version}`)).toEqual([
          'appended 2',
          'conflict 2',
          'appended 3',
          'appended 2',
        ])
        expect(results[3]).toEqual({ ...results[0], repeated: true })
        expect(await log.advance({ ...part, position: 2, done: false }, tx)).toBe('advanced')
        expect(await log.advance({ ...part, token: 'u', position: 2, done: true }, tx)).toBe('lost')
        expect(await log.declare({ name: 'q', parts: 2, after: 1 }, tx)).toMatchObject({
          fresh: true,
          parts: 2,
        })
        expect(await log.rebuild({ do: 'begin', name: 'p' }, tx)).toMatchObject({ live: 1, building: 2 })
        expect(await log.advance({ ...part, position: 3, done: true }, tx)).toBe('advanced')
      }
      const undone = library.transaction(async (tx) => {
        await work(tx)
        throw new Error('changed my mind')
      })
      await expect(undone).rejects.toThrow('changed my mind')
      expect(await namesOf(log)).toEqual(['a@1', 'a@2'])
      expect(await log.projections()).toMatchObject([{ building: undefined, checkpoints: [{ position: 0 }] }])
      await library.transaction(work)
      const read = await readAll(log)
      expect(read.slice(2).map(nameOf)).toEqual(["Straße-'1\\@1", "Straße-'1\\@2", 'a@3'])
      expect(read[2]).toMatchObject({ ...events[0], position: read[2]?.position })
      expect(await log.projections()).toMatchObject([
        { building: 2, checkpoints: [{ position: 3, owner: undefined }, { position: 0 }] },
        { name: 'q', checkpoints: [{ position: 1 }, { position: 1 }] },
      ])
      for (const tx of library.noTransaction)
        await expect(log.append([newAppend('b')], tx)).rejects.toMatchObject({
          code: 'STORE_REFUSED',
          field: 'tx',
        })
    })
  }
})

test('an id that another transaction is about to have is refused when that has committed', async () => {
  const log = await openLog()
  const client = await connected()
  const given = newAppend('a')
  await client.query('BEGIN')
  await log.append([given], client)
  const other = { ...given, stream: 'b' }
  const both = Promise.allSettled([log.append([other]), log.append([newAppend('c')])])
  await waiting(client)
  await client.query('COMMIT')
  expect(await both).toMatchObject([
    { status: 'rejected', reason: { code: 'STORE_REFUSED', field: 'id', value: given.id } },
    { status: 'fulfilled' },
  ])
  expect(await namesOf(log)).toEqual(['a@1', 'c@1'])
})

test('the same append over another connection, while the first one is under way, is a repeated one', async () => {
  const log = await openLog()
  for (const expected of ['none', 'any', 0] as const) {
    const client = await connected()
    const given = newAppend(`s-${expected}`, expected, 2)
    await client.query('BEGIN')
    const [first] = await log.append([given], client)
    const again = log.append([given])
    await waiting(client)
    await client.query('COMMIT')
    expect(await again).toEqual([{ ...first, repeated: true }])
  }
})

test('an append whose answer is lost is asked for again, and appended once', async () => {
  const schema = freshSchema()
  const log = await openLog({ schema, poolSize: 2 })
  await append(log, 'warm')
  const gate = await connected()
  await gate.query('BEGIN')
  await log.append([newAppend('s', 'none')], gate)
  const waits = append(log, 's', 'any', 2)
  const pid = await waiting(gate)
  await asAdmin((admin) => admin.query('SELECT pg_terminate_backend($1)', [pid]))
  await gate.query('COMMIT')
  expect(await waits).toMatchObject({ status: 'appended', version: 3 })
  expect(await namesOf(log)).toEqual(['warm@1', 's@1', 's@2', 's@3'])
})

/** Until somebody waits for this transaction; the process that does. */
async function waiting(holder: pg.Client): Promise<number> {
  const { rows } = await holder.query('SELECT pg_backend_pid() AS pid')
  return until('somebody waits', 5_000, () =>
    asAdmin(async (admin) => {
      const { rows: found } = await admin.query(
        'SELECT pid FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))',
        [rows[0].pid],
      )
      return found[0]?.pid as number | undefined
    }),
  )
}

describe('a lease whose checkpoint a transaction moves', () => {
  const part = { name: 'p', generation: 1, part: 0 }

  test('is not waited for by others, and renewed by its own when that has ended', async () => {
    const log = await openLog()
    await log.declare({ name: 'p', parts: 1, after: 0 })
    const own = { ...part, token: 'a', owner: 'a', lease: 60_000 }
    await log.hold(own)
    const transaction = await log.begin()
    await log.advance({ ...part, token: 'a', position: 5, done: false }, transaction.tx)
    expect(await log.hold({ ...part, token: 'b', owner: 'b', lease: 1 })).toBeUndefined()
    const renewed = log.hold(own)
    await transaction.commit()
    expect(await renewed).toEqual({ position: 5 })
  })

  test('is nobody’s but its own while that lasts, although its time is over', async () => {
    const log = await openLog()
    await log.declare({ name: 'p', parts: 1, after: 0 })
    await log.hold({ ...part, token: 'a', owner: 'a', lease: 200 })
    const transaction = await log.begin()
    expect(await log.advance({ ...part, token: 'a', position: 5, done: false }, transaction.tx)).toBe(
      'advanced',
    )
    await new Promise((resolve) => setTimeout(resolve, 250))
    const other = { ...part, token: 'b', owner: 'b', lease: 1000 }
    expect(await log.hold(other)).toBeUndefined()
    await transaction.commit()
    expect(await log.hold(other)).toEqual({ position: 5 })
  })
})

test('time is the server’s, where no clock is given', async () => {
  const log = await openLog()
  const before = Date.now()
  const result = await append(log, 's')
  const at = result.status === 'appended' ? result.at : 0
  expect(Math.abs(at - before)).toBeLessThan(60_000)
  expect((await page(log)).events[0]?.at).toBe(at)
  const query = { category: 's', superseded: false, through: 10, limit: 10 }
  expect((await log.surplus({ ...query, age: 60_000 })).events).toEqual([])
  expect((await log.surplus({ ...query, age: -60_000 })).events).toHaveLength(1)
})

test('transactions of its own leave a connection to the others, and wait in line', async () => {
  const log = await openLog({ poolSize: 2, patience: '1s' })
  const first = await log.begin()
  const second = log.begin()
  expect(await append(log, 'a')).toMatchObject({ status: 'appended' })
  await first.rollback()
  await expect(first.commit()).rejects.toMatchObject({ code: 'STORE_REFUSED' })
  const third = (await second).rollback()
  await third
  const held = await log.begin()
  expect(await codeOf(log.begin())).toBe('STORE_BUSY')
  await held.commit()
  expect(() => postgresLog({ url: serverUrl(), poolSize: 1 })).toThrow(/poolSize/)
})

describe('through PgBouncer in transaction mode', () => {
  let pooler: PgBouncer

  beforeAll(async () => {
    pooler = await startPgBouncer(serverUrl(), { poolSize: 3 })
  })
  afterAll(() => pooler.stop())

  test('everything works as without', async () => {
    const schema = freshSchema()
    const log = await openLog({ url: pooler.url, schema, poolSize: 8 })
    const results = await Promise.all(Array.from({ length: 30 }, (_, i) => append(log, `s-${i % 5}`)))
    expect(results.every(({ status }) => status === 'appended')).toBe(true)
    const transaction = await log.begin()
    await log.append([newAppend('t')], transaction.tx)
    await append(log, 'after')
    expect(await namesOf(log)).toHaveLength(30)
    await transaction.commit()
    expect(await namesOf(log)).toHaveLength(32)
    const direct = await openLog({ schema })
    expect(await versionOf(direct, 's-0')).toBe(6)
  })
})

describe('its schema', () => {
  test('is made once by many that open at once', async () => {
    const schema = freshSchema()
    const logs = await Promise.all(Array.from({ length: 6 }, () => openLog({ schema, poolSize: 2 })))
    await Promise.all(logs.map((log) => append(log, 's')))
    expect(await versionOf(logs[0] as EventLog, 's')).toBe(6)
  })

  test('of a newer version is refused', async () => {
    const schema = freshSchema()
    await openLog({ schema })
    await asAdmin((admin) => admin.query(`INSERT INTO ${schema}.migration VALUES (99, 'future')`))
    await expect(openLog({ schema })).rejects.toMatchObject({ code: 'STORE_REFUSED', value: 99 })
  })

  test('that holds something else is refused', async () => {
    const schema = freshSchema()
    await open({ schema })
    await expect(openLog({ schema })).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      field: 'schema',
      value: schema,
    })
  })

  test('that was dropped under it is said to be missing', async () => {
    const schema = freshSchema()
    const log = await openLog({ schema, patience: 0 })
    await asAdmin((admin) => admin.query(`DROP SCHEMA ${schema} CASCADE`))
    expect(await codeOf(append(log, 's'))).toBe('STORE_FAILED')
    expect(await codeOf(page(log))).toBe('STORE_FAILED')
  })
})

test('no plan goes through whole tables', async () => {
  const schema = freshSchema()
  const log = await openLog({ schema })
  const appends: Append[] = Array.from({ length: 400 }, (_, i) => newAppend(`order-${i % 40}`, 'any', 5))
  await log.append(appends)
  // Names are the log's own: what it has prepared on its connections is what it runs.
  const client = await connected()
  await client.query(`ANALYZE ${schema}.event; SET search_path = ${schema}`)
  const plans = {
    page: `SELECT * FROM event WHERE position > 1900 ORDER BY position LIMIT 20`,
    head: `SELECT max(position) FROM event`,
    stream: `SELECT * FROM event WHERE stream = 'order-7' AND version > 3 ORDER BY version LIMIT 5`,
    category: `SELECT * FROM event WHERE (stream, version) > ('order-3', 9) AND stream < 'order.' ORDER BY stream, version LIMIT 5`,
  }
  for (const [name, text] of Object.entries(plans)) {
    const { rows } = await client.query(`EXPLAIN ${text}`)
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    expect(plan, name).toMatch(/Index (Only )?Scan/)
    expect(plan, name).not.toMatch(/Seq Scan|Sort/)
  }
})

test('what is closed says so, and opens again', async () => {
  const log = await openLog()
  await append(log, 's')
  await log.close()
  for (const call of [() => append(log, 's'), () => page(log), () => log.begin(), () => log.end()])
    expect(await codeOf(call())).toBe('CLOSED')
  await log.open()
  expect(await namesOf(log)).toEqual(['s@1'])
})
