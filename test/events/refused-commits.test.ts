/** What handlers wrote is refused only at the end of a batch: by a deferred constraint, or after an error they did not heed. */
import type Database from 'better-sqlite3'
import { defineProjection, type EventStoreEvents, type SkipOptions } from 'millrace/events'
import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { caughtUp, working } from './followers.js'
import { engine } from './logs.js'
import { all, bank, codeOf, Deposited, deposits, storeOn } from './stores.js'
import { freshName } from './tables.js'

async function run(tx: unknown, sql: string): Promise<unknown> {
  return engine === 'postgres' ? (tx as pg.PoolClient).query(sql) : (tx as Database.Database).exec(sql)
}

/** A projection of deposits; the third one comes to be refused. */
async function refusing(write: (tx: unknown, table: string, version: number) => unknown, skip?: SkipOptions) {
  const { log } = await bank()
  const projection = defineProjection({
    name: freshName('entries'),
    events: [Deposited],
    backoff: { type: 'fixed', initialDelay: '5ms', jitter: 'none' },
    ...(skip && { skip }),
    on: { deposited: ({ version }, { tx, table }) => write(tx(), table, version) },
    create: ({ tx, table }) =>
      run(
        tx(),
        `CREATE TABLE ${table} (id integer PRIMARY KEY,
           parent integer REFERENCES ${table} DEFERRABLE INITIALLY DEFERRED)`,
      ),
    drop: ({ tx, table }) => run(tx(), `DROP TABLE IF EXISTS ${table}`),
  })
  const store = await storeOn(log, { projections: [projection] })
  const errors: EventStoreEvents['error'][] = []
  store.on('error', (error) => errors.push(error))
  await deposits(store, 'account-1', 5)
  const rows = async () => {
    const transaction = await log.begin()
    const sql = `SELECT id FROM ${await store.table(projection)} ORDER BY id`
    const { tx } = transaction
    const found: unknown[] =
      engine === 'postgres'
        ? (await (tx as pg.PoolClient).query(sql)).rows
        : (tx as Database.Database).prepare(sql).all()
    await transaction.rollback()
    return found.map((row) => (row as { id: number }).id)
  }
  return { store, projection, errors, rows }
}

const constrained = (tx: unknown, table: string, version: number) =>
  run(tx, `INSERT INTO ${table} VALUES (${version}, ${version === 3 ? 99 : 'NULL'})`)

describe.skipIf(engine === 'memory')('a batch that is refused at its commit', () => {
  test('is done one by one, and the event that it is about is told, tried again, and set aside', async () => {
    const { store, projection, errors, rows } = await refusing(constrained, { after: 3 })
    await working(store)
    await caughtUp(store, projection)
    expect(await rows()).toEqual([1, 2, 4, 5])
    expect(await all(store.skipped(projection))).toMatchObject([{ event: { version: 3 } }])
    expect(errors).toMatchObject([1, 2].map((tries) => ({ tries, event: { version: 3 } })))
  })

  test('stands still at that event where nothing is set aside', async () => {
    const { store, errors, rows } = await refusing(constrained)
    await working(store)
    await expect.poll(() => errors.length).toBeGreaterThan(2)
    expect(await rows()).toEqual([1, 2])
    expect(new Set(errors.map(({ event }) => event?.version))).toEqual(new Set([3]))
  })

  test('comes to light for who catches up', async () => {
    const { store, rows } = await refusing(constrained)
    expect(await codeOf(store.catchUp())).toBe('STORE_FAILED')
    expect(await rows()).toEqual([1, 2])
  })
})

test.skipIf(engine !== 'postgres')('a handler that does not heed its failed statement is told', async () => {
  const { store, projection, rows } = await refusing(
    async (tx, table, version) => {
      await run(tx, `INSERT INTO ${table} VALUES (${version}, NULL)`)
      if (version === 3) await run(tx, 'SELECT 1 / 0').catch(() => {})
    },
    { after: 2 },
  )
  await working(store)
  await caughtUp(store, projection)
  expect(await rows()).toEqual([1, 2, 4, 5])
  expect(await all(store.skipped(projection))).toMatchObject([{ event: { version: 3 } }])
})
