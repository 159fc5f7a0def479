import { setTimeout as sleep } from 'node:timers/promises'
import { MillraceError } from '../../core/errors.js'
import type { Connection } from './connection.js'
import { sqlState } from './errors.js'
import type { Timeouts } from './options.js'
import { lockKey, quote } from './schema.js'
import type { Queryable, Transaction } from './transaction.js'

export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/** What a schema should be like. */
export interface SchemaPlan {
  readonly schema: string
  /** A table that only a schema of this kind has, and what it is for. */
  readonly own: { readonly table: string; readonly of: string }
  /** In order, without gaps. */
  readonly migrations: readonly Migration[]
  /** Puts what is in braces in its place. */
  readonly inSchema: (sql: string) => string
  /** What each version has of its own beside those of others. Made together, so that one of them tells: `mark`. */
  readonly functions?: { readonly mark: string; readonly texts: () => readonly string[] }
}

/**
 * Brings the schema to this version, forward only, and adds the functions of this version to those of others. Safe when
 * many processes start at once.
 */
export async function migrate(connection: Connection, plan: SchemaPlan): Promise<void> {
  const deadline = performance.now() + patienceMs
  while (!(await isReady(connection, plan))) {
    const took = await connection.transaction((transaction) => next(transaction, plan), { timeouts })
    if (took) continue
    if (performance.now() > deadline) throw stuck(plan.schema)
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
async function isReady(server: Queryable, plan: SchemaPlan): Promise<boolean> {
  const latest = plan.migrations.at(-1)?.version ?? 0
  const { version, hasFunctions } = await stateOf(server, plan)
  if (version > latest) throw tooNew(plan.schema, version, latest)
  return version === latest && hasFunctions
}

interface State {
  /** 0 when there is nothing yet. */
  readonly version: number
  /** Those of this version are there. */
  readonly hasFunctions: boolean
}

async function stateOf(server: Queryable, { schema, own, functions }: SchemaPlan): Promise<State> {
  const { rows } = await server.query<{ exists: boolean; isOurs: boolean; hasFunctions: boolean }>(
    { text: whatExists },
    [schema, functions?.mark ?? null, own.table],
  )
  const { exists = false, isOurs = false, hasFunctions = false } = rows[0] ?? {}
  if (!exists) return { version: 0, hasFunctions }
  const text = `SELECT coalesce(max(version), 0) AS version FROM ${quote(schema)}.migration`
  const { rows: found } = await server.query<{ version: number }>({ text })
  const { version = 0 } = found[0] ?? {}
  if (version > 0 && !isOurs) throw somebodyElses(schema, own.of)
  return { version, hasFunctions }
}

const whatExists = `SELECT EXISTS (
  SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = 'migration') AS exists, EXISTS (
  SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = $3) AS "isOurs", $2::text IS NULL OR EXISTS (
  SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = $1 AND p.proname = $2) AS "hasFunctions"`

/** One migration, one transaction; at last the functions. False: another process is at it. */
async function next(transaction: Transaction, plan: SchemaPlan): Promise<boolean> {
  const { schema, migrations, functions } = plan
  const { rows } = await transaction.query<{ taken: boolean }>(
    { text: 'SELECT pg_try_advisory_xact_lock($1) AS taken' },
    [lockKey(schema, 'migrate')],
  )
  if (rows[0]?.taken !== true) return false
  await createSchema(transaction, schema)
  // Read again under the lock: another process may have migrated in between.
  const { version, hasFunctions } = await stateOf(transaction, plan)
  const migration = migrations.find((candidate) => candidate.version === version + 1)
  if (migration !== undefined) await apply(transaction, plan, migration)
  else if (!hasFunctions) for (const text of functions?.texts() ?? []) await transaction.script(text)
  return true
}

async function apply(
  transaction: Transaction,
  { schema, inSchema }: SchemaPlan,
  { version, name, sql }: Migration,
): Promise<void> {
  await transaction.script(inSchema(sql))
  const text = `INSERT INTO ${quote(schema)}.migration (version, name) VALUES ($1, $2)`
  await transaction.query({ text }, [version, name])
}

/** Not with IF NOT EXISTS alone: that needs the right to create one even where it exists. */
async function createSchema(transaction: Transaction, schema: string): Promise<void> {
  const text = 'SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1'
  const { rowCount } = await transaction.query({ text }, [schema])
  if (rowCount === 0) await make(transaction, schema)
  await transaction.script(migrationTable(schema))
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

function migrationTable(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${quote(schema)}.migration (
  version int PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)`
}

function tooNew(schema: string, current: number, latest: number): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `the schema ${quote(schema)} has version ${current}, made by a newer Millrace; this one knows up to ${latest}. Upgrade millrace in this process`,
    { field: 'schema', value: current, limit: latest },
  )
}

function somebodyElses(schema: string, of: string): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `the schema ${quote(schema)} has tables of Millrace, and not those of ${of}; give each a schema of its own`,
    { field: 'schema', value: schema },
  )
}

function stuck(schema: string): MillraceError {
  return new MillraceError(
    'STORE_BUSY',
    `another process has been migrating the schema ${quote(schema)} for ${patienceMs / 60_000} minutes; look for its transaction in pg_stat_activity`,
    { field: 'schema', value: schema },
  )
}
