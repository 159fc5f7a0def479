/**
 * Schemas on the server that all tests of the project share. Making one takes a while, so they are emptied and used
 * again, by other files as well: a file in MILLRACE_TEST_SCHEMAS says that the schema of its name is free.
 */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

export interface Schema {
  readonly name: string
  /** For whoever uses the schema, one after the other: the server is slow in a connection that it does not know. */
  readonly pool: pg.Pool
  timesEmptied: number
}

const folder = process.env.MILLRACE_TEST_SCHEMAS as string
const pools = new Map<string, pg.Pool>()

/** An empty one, which nobody else has. */
export function takeSchema(): Schema {
  const free = readdirSync(folder).sort((a, b) => Number(pools.has(b)) - Number(pools.has(a)))
  for (const name of free) {
    const timesEmptied = claim(join(folder, name))
    if (timesEmptied !== undefined) return { name, pool: poolOf(name), timesEmptied }
  }
  const name = `test_${randomUUID().replaceAll('-', '')}`
  return { name, pool: poolOf(name), timesEmptied: 0 }
}

/** When every store that used it is closed; none may have been opened. */
export async function giveBackSchema(schema: Schema, wasOpened = true): Promise<void> {
  if (wasOpened) await emptySchema(schema)
  writeFileSync(join(folder, schema.name), String(schema.timesEmptied))
}

/** Undefined: another process was faster. */
function claim(file: string): number | undefined {
  try {
    const times = Number(readFileSync(file, 'utf8'))
    unlinkSync(file)
    return times
  } catch {
    return undefined
  }
}

function poolOf(name: string): pg.Pool {
  const connectionString = process.env.MILLRACE_TEST_POSTGRES_URL
  const pool = pools.get(name) ?? new pg.Pool({ connectionString, max: 5, allowExitOnIdle: true })
  pools.set(name, pool)
  return pool
}

/** By deleting what is there, which is far faster than TRUNCATE for few rows; that one now and then, for the dead ones. */
async function emptySchema(schema: Schema): Promise<void> {
  const { name, pool } = schema
  // What a store had under way when it was closed is still written.
  while (pool.idleCount < pool.totalCount) await sleep(1)
  const command = ++schema.timesEmptied % 25 === 0 ? 'TRUNCATE %I.%I CASCADE' : 'DELETE FROM %I.%I'
  await pool.query(`
    DO $$ DECLARE command text; BEGIN
      FOR command IN
        SELECT format('${command}', schemaname, tablename) FROM pg_tables
        WHERE schemaname = '${name}' AND tablename NOT IN ('migration', 'number', 'sweep')
        -- Kinds refer to queues.
        ORDER BY tablename = 'queue'
      LOOP
        EXECUTE command;
      END LOOP;
    END $$;
    UPDATE ${name}.number SET last = 0;
    UPDATE ${name}.sweep SET at = 0`)
}
