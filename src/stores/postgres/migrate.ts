import { setTimeout as sleep } from 'node:timers/promises'
import { MillraceError } from '../../core/errors.js'
import type { Connection } from './connection.js'
import { sqlState } from './errors.js'
import { functionSet, functions } from './functions.js'
import type { Timeouts } from './options.js'
import { inSchema, lockKey, quote } from './schema.js'
import { migrations as all } from './sql.generated.js'
import { deskFunctions, listFunctions } from './statements.js'
import type { Queryable, Transaction } from './transaction.js'

type Migration = (typeof all)[number]

/**
 * Brings the schema to this version, forward only, and adds the functions of this version to those of others. Safe when
 * many processes start at once.
 */
export async function migrate(
  connection: Connection,
  schema: string,
  migrations: readonly Migration[] = all,
): Promise<void> {
  const latest = migrations.at(-1)?.version ?? 0
  const deadline = performance.now() + patienceMs
  while (!(await isReady(connection, schema, latest))) {
    const took = await connection.transaction((transaction) => next(transaction, schema, migrations), {
      timeouts,
    })
    if (took) continue
    if (performance.now() > deadline) throw stuck(schema)
    await sleep(pollMs)
  }
}

/** Asked again and again rather than waited for: a long migration of another process would outlast every timeout. */
const pollMs = 100
const patienceMs = 10 * 60_000

/** A migration may build an index, but must not keep others waiting for a table that is in use. */
const timeouts: Timeouts = {
  statement: patienceMs,
  lock: 3_000,
  idleInTransaction: 60_000,
  answer: patienceMs + 5_000,
  connect: 5_000,
}

/** Refused when this process is too old for the schema. */
async function isReady(server: Queryable, schema: string, latest: number): Promise<boolean> {
  const { version, hasFunctions } = await stateOf(server, schema)
  if (version > latest) throw tooNew(schema, version, latest)
  return version === latest && hasFunctions
}

interface State {
  readonly version: number
  /** Those of this version are there. They are made together, so one of them tells. */
  readonly hasFunctions: boolean
}

async function stateOf(server: Queryable, schema: string): Promise<State> {
  const { rows } = await server.query<{ exists: boolean; hasFunctions: boolean }>({ text: whatExists }, [
    schema,
    `exchange_${functionSet}`,
  ])
  const { exists = false, hasFunctions = false } = rows[0] ?? {}
  if (!exists) return { version: 0, hasFunctions }
  const text = inSchema('SELECT coalesce(max(version), 0) AS version FROM {schema}.migration', schema)
  const { rows: found } = await server.query<{ version: number }>({ text })
  return { version: found[0]?.version ?? 0, hasFunctions }
}

const whatExists = `SELECT EXISTS (
  SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = 'migration') AS exists, EXISTS (
  SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = $1 AND p.proname = $2) AS "hasFunctions"`

/** One migration, one transaction; at last the functions. False: another process is at it. */
async function next(
  transaction: Transaction,
  schema: string,
  migrations: readonly Migration[],
): Promise<boolean> {
  const { rows } = await transaction.query<{ taken: boolean }>(
    { text: 'SELECT pg_try_advisory_xact_lock($1) AS taken' },
    [lockKey(schema, 'migrate')],
  )
  if (rows[0]?.taken !== true) return false
  await createSchema(transaction, schema)
  // Read again under the lock: another process may have migrated in between.
  const { version, hasFunctions } = await stateOf(transaction, schema)
  const migration = migrations.find((candidate) => candidate.version === version + 1)
  if (migration !== undefined) await apply(transaction, schema, migration)
  else if (!hasFunctions) await makeFunctions(transaction, schema)
  return true
}

async function apply(
  transaction: Transaction,
  schema: string,
  { version, name, sql }: Migration,
): Promise<void> {
  await transaction.script(inSchema(sql, schema))
  const text = inSchema('INSERT INTO {schema}.migration (version, name) VALUES ($1, $2)', schema)
  await transaction.query({ text }, [version, name])
}

/** Only `enqueue`, which others call, has the same name in every version: the one that came last stands. */
async function makeFunctions(transaction: Transaction, schema: string): Promise<void> {
  for (const text of functions) await transaction.script(inSchema(text, schema))
  for (const text of [...deskFunctions(schema), ...listFunctions(schema)]) await transaction.script(text)
}

/** Not with IF NOT EXISTS alone: that needs the right to create one even where it exists. */
async function createSchema(transaction: Transaction, schema: string): Promise<void> {
  const text = 'SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1'
  const { rowCount } = await transaction.query({ text }, [schema])
  if (rowCount === 0) await make(transaction, schema)
  await transaction.script(inSchema(migrationTable, schema))
}

async function make(transaction: Transaction, schema: string): Promise<void> {
  try {
    await transaction.script(`CREATE SCHEMA ${quote(schema)}`)
  } catch (error) {
    if (sqlState(error) !== '42501') throw error
    throw new MillraceError(
      'STORE_REFUSED',
      `there is no schema ${quote(schema)} and this role may not create one; as an administrator run: CREATE SCHEMA ${quote(schema)} AUTHORIZATION the_role`,
      { field: 'schema', value: schema, cause: error },
    )
  }
}

const migrationTable = `CREATE TABLE IF NOT EXISTS {schema}.migration (
  version int PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)`

function tooNew(schema: string, current: number, latest: number): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `the schema ${quote(schema)} has version ${current}, made by a newer Millrace; this one knows up to ${latest}. Upgrade millrace in this process`,
    { field: 'schema', value: current, limit: latest },
  )
}

function stuck(schema: string): MillraceError {
  return new MillraceError(
    'STORE_BUSY',
    `another process has been migrating the schema ${quote(schema)} for ${patienceMs / 60_000} minutes; look for its transaction in pg_stat_activity`,
    { field: 'schema', value: schema },
  )
}
