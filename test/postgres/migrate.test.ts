import { expect, test } from 'vitest'
import { migrate } from '../../src/databases/postgres/migrate.js'
import { planOf } from '../../src/stores/postgres/migrate.js'
import { migrations } from '../../src/stores/postgres/sql.generated.js'
import { asAdmin, codeOf, freshRole, freshSchema, open, sql } from './postgres.js'

const latest = migrations.length

test('eight processes that open at once migrate once', async () => {
  const schema = freshSchema()
  const [connection = await open()] = await Promise.all(
    Array.from({ length: 8 }, () => open({ schema, poolSize: 1 })),
  )
  const { rows } = await connection.query(sql(`SELECT version FROM ${schema}.migration ORDER BY version`))
  expect(rows).toEqual(migrations.map(({ version }) => ({ version })))
})

test('goes on where the last one ended, each migration in its own transaction', async () => {
  const schema = freshSchema()
  const connection = await open({ schema })
  const more = [
    ...migrations,
    { version: latest + 1, name: 'good', sql: 'CREATE TABLE {schema}.good ()' },
    { version: latest + 2, name: 'bad', sql: 'CREATE TABLE {schema}.half (); SELECT 1 / 0' },
  ]
  expect(await codeOf(migrate(connection, planOf(schema, more)))).toBe('STORE_FAILED')
  const { rows } = await connection.query(
    sql(`SELECT to_regclass('${schema}.good') IS NOT NULL AS good, to_regclass('${schema}.half') IS NOT NULL AS half,
      (SELECT max(version) FROM ${schema}.migration) AS version`),
  )
  expect(rows).toEqual([{ good: true, half: false, version: latest + 1 }])
})

test('a newer schema is refused', async () => {
  const schema = freshSchema()
  const connection = await open({ schema })
  await connection.query(sql(`INSERT INTO ${schema}.migration VALUES (${latest + 7}, 'future')`))
  const error = await open({ schema }).catch((thrown) => thrown)
  expect(error).toMatchObject({ code: 'STORE_REFUSED', value: latest + 7, limit: latest })
  expect(error.message).toContain('Upgrade millrace')
})

test('a role without the right to create schemas uses one that exists, and says what it misses otherwise', async () => {
  const { href: url, username } = await freshRole('')
  const [given, missing] = [freshSchema(), freshSchema()]
  await asAdmin((client) => client.query(`CREATE SCHEMA ${given} AUTHORIZATION ${username}`))
  const connection = await open({ url, schema: given })
  expect((await connection.query(sql(`SELECT FROM ${given}.migration`))).rowCount).toBe(latest)
  const error = await open({ url, schema: missing }).catch((thrown) => thrown)
  expect(error).toMatchObject({ code: 'STORE_REFUSED' })
  expect(error.message).toContain(`CREATE SCHEMA "${missing}"`)
})

test('a database that hides what others committed is refused', async () => {
  const { href: url, username } = await freshRole('SUPERUSER')
  await asAdmin((client) =>
    client.query(`ALTER ROLE ${username} SET default_transaction_isolation = 'serializable'`),
  )
  await expect(open({ url, schema: freshSchema() })).rejects.toMatchObject({
    code: 'STORE_REFUSED',
    field: 'default_transaction_isolation',
  })
})
