/** What readers look at, in which order: moments that no storm meets reliably. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { type Connection, openConnection } from '../../src/databases/postgres/connection.js'
import { compileOptions } from '../../src/databases/postgres/options.js'
import { lockKey } from '../../src/databases/postgres/schema.js'
import type { Queryable } from '../../src/databases/postgres/transaction.js'
import type { EventLog } from '../../src/events/log.js'
import { Reader } from '../../src/events/logs/postgres/all.js'
import { inSchemaOf, planOf } from '../../src/events/logs/postgres/in-schema.js'
import { postgresLog } from '../../src/events/logs/postgres/index.js'
import { append, newAppend, page } from '../events/logs.js'
import { startProxy } from '../servers/proxy.js'
import { until } from '../servers/until.js'
import { asAdmin, freshSchema, serverUrl } from './postgres.js'

async function openLog(schema: string, url = serverUrl()): Promise<EventLog> {
  const log = postgresLog({ url, schema, poolSize: 4, statementTimeout: '1s' })
  onTestFinished(() => log.close())
  await log.open()
  return log
}

async function connect(schema: string): Promise<Connection> {
  const connection = await openConnection(compileOptions({ url: serverUrl() }, schema), planOf(schema))
  onTestFinished(() => connection.close())
  return connection
}

async function begun(): Promise<pg.Client> {
  const client = new pg.Client(serverUrl())
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('BEGIN')
  return client
}

test('writers are looked at after the head, not before', async () => {
  const schema = freshSchema()
  const log = await openLog(schema)
  await append(log, 'a')
  const gate = await begun()
  await gate.query(`LOCK TABLE ${schema}.event IN ACCESS EXCLUSIVE MODE`)
  const end = log.end()
  await until('the look has begun', 5_000, () =>
    asAdmin(async (admin) => {
      const { rows } = await admin.query(
        `SELECT FROM pg_locks WHERE NOT granted AND relation = '${schema}.event'::regclass`,
      )
      return rows.length > 0 ? true : undefined
    }),
  )
  // What an append does before its events are written.
  const writer = await begun()
  await writer.query('SELECT pg_current_xact_id()')
  await writer.query('SELECT pg_advisory_xact_lock_shared($1)', [lockKey(schema, 'writers')])
  await writer.query(`SELECT nextval(pg_get_serial_sequence('${schema}.event', 'position'))`)
  await log.append([newAppend('b')], gate)
  await gate.query('COMMIT')
  expect(await end).toBeLessThanOrEqual(1)
  expect(await page(log, { after: 1 })).toMatchObject({ events: [], pending: true })
  await writer.query('ROLLBACK')
  expect(await page(log, { after: 1 })).toMatchObject({
    events: [{ stream: 'b', position: 3 }],
    pending: false,
  })
})

test('a look whose answer is late is not taken for a newer one', async () => {
  const schema = freshSchema()
  const connection = await connect(schema)
  const log = await openLog(schema)
  await append(log, 'a')
  const late = new LateAnswers(connection)
  const reader = new Reader(late, inSchemaOf(schema))
  const end = reader.end()
  await late.held
  const writer = await begun()
  await log.append([newAppend('slow')], writer)
  await append(log, 'b')
  const query = { after: 1, limit: 10, types: undefined, share: undefined }
  const looking = reader.all(query)
  await Promise.race([looking, sleep(200)])
  late.release()
  expect(await end).toBe(1)
  expect(await looking).toMatchObject({ events: [], pending: true })
  expect(await reader.all(query)).toMatchObject({ events: [], pending: true })
  await writer.query('COMMIT')
  expect((await reader.all(query)).events.map(({ stream }) => stream)).toEqual(['slow', 'b'])
})

/** Holds back what the server says of its writers the first time. */
class LateAnswers implements Queryable {
  readonly #server: Queryable
  readonly held: Promise<void>
  #isHeld: () => void = () => {}
  release: () => void = () => {}
  #first = true

  constructor(server: Queryable) {
    this.#server = server
    this.held = new Promise((resolve) => {
      this.#isHeld = resolve
    })
  }

  query: Queryable['query'] = async (statement, values) => {
    const isFirst = this.#first && statement.text.includes('writers_')
    if (isFirst) this.#first = false
    const result = await this.#server.query(statement, values)
    if (isFirst) {
      const released = new Promise<void>((resolve) => {
        this.release = resolve
      })
      this.#isHeld()
      await released
    }
    return result as never
  }
}

test('an append that was committed, and whose answer was lost, is asked for again and appended once', async () => {
  const schema = freshSchema()
  const proxy = await startProxy(serverUrl())
  onTestFinished(() => proxy.close())
  const [near, far] = [await openLog(schema), await openLog(schema, proxy.through(serverUrl()))]
  await append(far, 'warm')
  // Connections for all that it may do at a time: new ones would have no answer.
  await Promise.all(Array.from({ length: 4 }, () => page(far)))
  proxy.dropReplies()
  const lost = Promise.all([append(far, 's', 'none', 2), append(far, 't', 'any', 3)])
  await until('it is committed', 5_000, async () =>
    (await page(near)).events.length === 6 ? true : undefined,
  )
  proxy.heal()
  expect(await lost).toMatchObject([
    { status: 'appended', version: 2, repeated: true },
    { status: 'appended', version: 3, repeated: true },
  ])
  expect((await page(near)).events).toHaveLength(6)
})
