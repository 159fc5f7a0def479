/** The engines that the tests of this folder run on; MILLRACE_TEST_ENGINE names one. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MemoryStore } from 'millrace/memory'
import { PostgresStore } from 'millrace/postgres'
import { RedisStore } from 'millrace/redis'
import { SqliteStore } from 'millrace/sqlite'
import { type StoreHarness, VirtualClock } from 'millrace/testing'
import { forgetPrefix, redisUrl, takePrefix } from './prefixes.js'
import { giveBackSchema, takeSchema } from './schemas.js'

export const engine = process.env.MILLRACE_TEST_ENGINE ?? 'memory'

/** Its jobs are on a server. */
export const isRemote = engine !== 'memory' && engine !== 'sqlite'

/** On one server, or on a cluster. */
export const isRedis = engine === 'redis' || engine === 'redis-cluster'

/** Over how many slots jobs are spread on Redis: those whose ids Millrace makes, and that have to do with nothing but themselves. */
export const shards = engine === 'redis-cluster' ? 3 : 1

/** How much of what is done many times: an engine with a server takes a message and its answer for each verb. */
export const pace = isRemote ? 0.1 : 1

export function makeHarness(): Promise<StoreHarness> {
  const make = engines[engine]
  if (make === undefined)
    throw new Error(`MILLRACE_TEST_ENGINE is '${engine}'; known are ${Object.keys(engines).join(', ')}`)
  return make()
}

/** What the other engines are compared with. */
export const makeReference = engine === 'memory' ? undefined : memory

const engines: Record<string, () => Promise<StoreHarness>> = {
  memory,
  sqlite,
  postgres,
  redis,
  'redis-cluster': redis,
}

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

/** In a schema of its own, on the server that all tests share. */
async function postgres(): Promise<StoreHarness> {
  const url = process.env.MILLRACE_TEST_POSTGRES_URL as string
  const schema = takeSchema()
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
      await giveBackSchema(schema)
    },
  }

  async function open(): Promise<PostgresStore> {
    const store = new PostgresStore({ url, schema: schema.name, clock, poolSize: 3 })
    opened.push(store)
    await store.open()
    return store
  }
}

/** Under a prefix of its own, on the server or cluster that all tests share. */
async function redis(): Promise<StoreHarness> {
  const prefix = takePrefix()
  const clock = new VirtualClock()
  const opened: RedisStore[] = []
  return {
    store: await open(),
    second: open,
    overtakes: true,
    isRemote: true,
    advance: (ms) => clock.advance(ms),
    jump: (ms) => clock.jump(ms),
    close: async () => {
      for (const store of opened) await store.close()
      await forgetPrefix(prefix)
    },
  }

  async function open(): Promise<RedisStore> {
    const store = new RedisStore({ url: redisUrl(), prefix, shards, clock, warn: false })
    opened.push(store)
    await store.open()
    return store
  }
}
