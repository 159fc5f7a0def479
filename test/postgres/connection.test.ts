import { isMillraceError } from 'millrace'
import { describe, expect, onTestFinished, test } from 'vitest'
import { sqlState } from '../../src/databases/postgres/errors.js'
import { compileOptions } from '../../src/databases/postgres/options.js'
import { asAdmin, codeOf, freshSchema, open, serverUrl, sql } from './postgres.js'

describe('a statement', () => {
  test('answers with its rows, in types of our own', async () => {
    const connection = await open()
    const { rows, rowCount } = await connection.query(
      sql(`SELECT 9007199254740991::bigint AS big, 1.5::float8 AS float, true AS yes, '{"a": 1}'::jsonb AS json,
        ARRAY[1, NULL, 3]::bigint[] AS list, $1::text AS text, NULL::int AS nothing`),
      ['π 🚀'],
    )
    expect(rowCount).toBe(1)
    expect(rows[0]).toEqual({
      big: 9007199254740991,
      float: 1.5,
      yes: true,
      json: '{"a": 1}',
      list: [1, null, 3],
      text: 'π 🚀',
      nothing: null,
    })
  })

  test('that fails is told in a sentence, and its connection goes on', async () => {
    const connection = await open({ poolSize: 1 })
    const before = await connection.query(sql('SELECT pg_backend_pid() AS pid'))
    const error = await connection.query(sql('SELECT 1 / 0')).catch((thrown) => thrown)
    expect(isMillraceError(error, 'STORE_FAILED')).toBe(true)
    expect(error.message).toContain('22012')
    expect(sqlState(error)).toBe('22012')
    expect((await connection.query(sql('SELECT pg_backend_pid() AS pid'))).rows).toEqual(before.rows)
  })

  test('keeps the state that a function of ours raises', async () => {
    const connection = await open()
    const raise = sql(`DO $$ BEGIN RAISE EXCEPTION 'not plain' USING ERRCODE = 'MR001'; END $$`)
    expect(sqlState(await connection.query(raise).catch((thrown) => thrown))).toBe('MR001')
  })

  test('that runs too long is cancelled by the server', async () => {
    const connection = await open({ statementTimeout: 50 })
    expect(await codeOf(connection.query(sql('SELECT pg_sleep(60)')))).toBe('STORE_BUSY')
  })

  test('is prepared under its name on a direct connection of our own', async () => {
    const connection = await open({ poolSize: 1 })
    await connection.query({ name: 'named', text: 'SELECT $1::int AS n' }, [1])
    await connection.query({ text: 'SELECT $1::int AS n' }, [1])
    const { rows } = await connection.query(sql('SELECT name FROM pg_prepared_statements'))
    expect(rows).toEqual([{ name: 'named' }])
  })

  test('whose prepared form has been overtaken by a migration is prepared anew', async () => {
    const schema = freshSchema()
    const connection = await open({ schema, poolSize: 1 })
    const all = { name: 'all', text: `SELECT * FROM ${schema}.meta` }
    await connection.query(all)
    await asAdmin((client) => client.query(`ALTER TABLE ${schema}.meta ADD COLUMN more text`))
    expect((await connection.query(all)).rows).toEqual([])
  })
})

describe('a transaction', () => {
  test('commits all or nothing', async () => {
    const schema = freshSchema()
    const connection = await open({ schema })
    const insert = sql(`INSERT INTO ${schema}.meta VALUES ($1, 'x')`)
    await connection.transaction((transaction) => transaction.query(insert, ['kept']))
    const failing = connection.transaction(async (transaction) => {
      await transaction.query(insert, ['lost'])
      throw new Error('changed my mind')
    })
    await expect(failing).rejects.toThrow('changed my mind')
    expect((await connection.query(sql(`SELECT key FROM ${schema}.meta`))).rows).toEqual([{ key: 'kept' }])
  })

  test('takes many statements at once, and does them in order', async () => {
    const warned: Error[] = []
    const warn = (warning: Error) => warned.push(warning)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    const connection = await open()
    const answers = await connection.transaction((transaction) =>
      Promise.all(Array.from({ length: 5 }, (_, n) => transaction.query(sql('SELECT $1::int AS n'), [n]))),
    )
    expect(answers.map(({ rows }) => rows[0].n)).toEqual([0, 1, 2, 3, 4])
    expect(warned).toEqual([])
  })

  test('whose process has fallen silent is ended by the server, and lets go of its locks', async () => {
    const schema = freshSchema()
    const connection = await open({ schema, idleInTransactionTimeout: 50 })
    const silent = await connection.begin()
    const ended = new Promise<void>((resolve) => silent.client.on('error', () => resolve()))
    await silent.query(sql(`LOCK TABLE ${schema}.meta`))
    await ended
    expect(await codeOf(connection.query(sql(`SELECT FROM ${schema}.meta`)))).toBe('ok')
    await silent.rollback()
  })

  test('is not said to be committed when a statement of it had failed', async () => {
    const connection = await open()
    const swallowed = connection.transaction(async (transaction) => {
      await transaction.query(sql('SELECT 1 / 0')).catch(() => {})
    })
    await expect(swallowed).rejects.toMatchObject({ code: 'STORE_FAILED' })
  })

  test('is tried again after a deadlock', async () => {
    const schema = freshSchema()
    const connection = await open({ schema })
    await connection.query(sql(`INSERT INTO ${schema}.meta VALUES ('a', '0'), ('b', '0')`))
    const add = sql(`UPDATE ${schema}.meta SET value = value::int + 1 WHERE key = $1`)
    const bothAt = meeting(2)
    const touch = (first: string, second: string) =>
      connection.transaction(async (transaction) => {
        await transaction.query(add, [first])
        await bothAt()
        await transaction.query(add, [second])
      })
    await Promise.all([touch('a', 'b'), touch('b', 'a')])
    const { rows } = await connection.query(sql(`SELECT value FROM ${schema}.meta`))
    expect(rows).toEqual([{ value: '2' }, { value: '2' }])
  })

  test('waits for a lock that another one holds, until its patience is over', async () => {
    const schema = freshSchema()
    const connection = await open({ schema, lockTimeout: 20, patience: 200 })
    const holder = await connection.begin()
    await holder.query(sql(`LOCK TABLE ${schema}.meta`))
    expect(await codeOf(connection.query(sql(`SELECT FROM ${schema}.meta`)))).toBe('STORE_BUSY')
    await holder.commit()
    expect(await codeOf(connection.query(sql(`SELECT FROM ${schema}.meta`)))).toBe('ok')
  })
})

describe('options', () => {
  const url = 'postgres://someone:hunter2@host/db'

  test.each([
    [{}, 'url'],
    [{ url: 'mysql://u:hunter2@host' }, 'url'],
    [{ url, schema: 'a"; DROP TABLE x' }, 'schema'],
    [{ url: 'postgres://u:hunter2@host:port/db' }, 'url'],
    [{ url, schema: 'pg_mine' }, 'schema'],
    [{ url, schema: 'x'.repeat(49) }, 'schema'],
    [{ url, poolSize: 0 }, 'poolSize'],
    [{ url, statementTimeout: 0 }, 'statementTimeout'],
    [{ url, listen: 'yes' as never }, 'listen'],
    [{ url, shema: 'x' } as object, 'shema'],
    [{ pool: {} as never }, 'pool'],
  ])('%o is refused', (options, field) => {
    let error: unknown
    try {
      compileOptions(options, 'millrace')
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ code: expect.stringMatching(/^INVALID/), field })
    expect(`${(error as Error).message} ${JSON.stringify(error)}`).not.toContain('hunter2')
  })

  test('undefined ones mean their defaults', () => {
    expect(compileOptions({ url, schema: undefined, patience: undefined } as never, 'millrace')).toEqual(
      compileOptions({ url }, 'millrace'),
    )
  })
})

test('a server that cannot be talked to as asked is refused at once, in a sentence', async () => {
  const error = await open({ url: `${serverUrl()}?sslmode=verify-full`, schema: freshSchema() }).catch(
    (e) => e,
  )
  expect(error).toMatchObject({ code: 'STORE_REFUSED' })
  expect(error.message).toContain('SSL')
  const nowhere = await open({ url: `${serverUrl()}_missing`, schema: freshSchema() }).catch((e) => e)
  expect(nowhere).toMatchObject({ code: 'STORE_REFUSED' })
})

test('a closed connection refuses, and what it was trying ends', async () => {
  const schema = freshSchema()
  const connection = await open({ schema })
  const waiting = codeOf(connection.query(sql('SELECT pg_sleep(9)')))
  await connection.close()
  expect(await waiting).toBe('CLOSED')
  expect(await codeOf(connection.query(sql('SELECT 1')))).toBe('CLOSED')
  expect(await codeOf(connection.begin())).toBe('CLOSED')
})

/** Resolves for everybody when `count` have come. */
function meeting(count: number): () => Promise<void> {
  const there: (() => void)[] = []
  return () =>
    new Promise((resolve) => {
      there.push(resolve)
      if (there.length >= count) for (const go of there) go()
    })
}
