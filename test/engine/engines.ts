/** The engines that the tests of this folder run on; MILLRACE_TEST_ENGINE names one. */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MemoryStore } from 'millrace/memory'
import { PostgresStore } from 'millrace/postgres'
import { SqliteStore } from 'millrace/sqlite'
import { type StoreHarness, VirtualClock } from 'millrace/testing'
import pg from 'pg'

export const engine = process.env.MILLRACE_TEST_ENGINE ?? 'memory'

export function makeHarness(): Promise<StoreHarness> {
  const make = engines[engine]
  if (make === undefined)
    throw new Error(`MILLRACE_TEST_ENGINE is '${engine}'; known are ${Object.keys(engines).join(', ')}`)
  return make()
}

/** What the other engines are compared with. */
export const makeReference = engine === 'memory' ? undefined : memory

const engines: Record<string, () => Promise<StoreHarness>> = { memory, sqlite, postgres }

async function memory(): Promise<StoreHarness> {
  const clock = new VirtualClock()
  const store = new MemoryStore({ clock })
  await store.open()
  return {
    store,
    advance: (ms) => clock.advance(ms),
    jump: (ms) => clock.jump(ms),
    close: () => store.close(),
  }
}

async function sqlite(): Promise<StoreHarness> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'))
  const clock = new VirtualClock()
  const opened: SqliteStore[] = []
  return {
    store: await open(),
    second: open,
    advance: (ms) => clock.advance(ms),
    jump: (ms) => clock.jump(ms),
    close: async () => {
      for (const store of opened) await store.close()
      rmSync(folder, { recursive: true })
    },
  }

  async function open(): Promise<SqliteStore> {
    const store = new SqliteStore({ file: join(folder, 'jobs.db'), clock, synchronous: 'normal' })
    opened.push(store)
    await store.open()
    return store
  }
}

/** A schema of its own on the server that all tests share. Emptied and used again: making one takes a while. */
async function postgres(): Promise<StoreHarness> {
  const url = process.env.MILLRACE_TEST_POSTGRES_URL as string
  const schema = emptySchemas.pop() ?? `test_${randomUUID().replaceAll('-', '')}`
  const clock = new VirtualClock()
  const opened: PostgresStore[] = []
  return {
    store: await open(),
    second: open,
    overtakes: true,
    isRemote: true,
    advance: (ms) => clock.advance(ms),
    jump: (ms) => clock.jump(ms),
    close: async () => {
      for (const store of opened) await store.close()
      await emptySchema(url, schema)
      emptySchemas.push(schema)
    },
  }

  async function open(): Promise<PostgresStore> {
    const store = new PostgresStore({ url, schema, clock, poolSize: 3 })
    opened.push(store)
    await store.open()
    return store
  }
}

const emptySchemas: string[] = []
const timesEmptied = new Map<string, number>()

/** By deleting what is there, which is far faster than TRUNCATE for few rows; that one now and then, for the dead ones. */
async function emptySchema(url: string, schema: string): Promise<void> {
  const times = (timesEmptied.get(schema) ?? 0) + 1
  timesEmptied.set(schema, times)
  const command = times % 25 === 0 ? 'TRUNCATE %I.%I CASCADE' : 'DELETE FROM %I.%I'
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`
      DO $$ DECLARE command text; BEGIN
        FOR command IN
          SELECT format('${command}', schemaname, tablename) FROM pg_tables
          WHERE schemaname = '${schema}' AND tablename NOT IN ('migration', 'number', 'sweep')
          -- Kinds refer to queues.
          ORDER BY tablename = 'queue'
        LOOP
          EXECUTE command;
        END LOOP;
      END $$;
      UPDATE ${schema}.number SET last = 0;
      UPDATE ${schema}.sweep SET at = 0`)
  } finally {
    await client.end()
  }
}
