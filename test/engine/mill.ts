/** A TestMill over the engine under test, closed and cleaned up after each test. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ClaimedJob, Millrace, type MillraceOptions, type Store } from 'millrace'
import { MemoryStore } from 'millrace/memory'
import { RedisStore } from 'millrace/redis'
import { SqliteStore } from 'millrace/sqlite'
import { TestMill, type TestMillOptions, type VirtualClock } from 'millrace/testing'
import { afterEach } from 'vitest'
import { engine, isRedis, shards } from './engines.js'
import { forgetPrefix, redisUrl, takePrefix } from './prefixes.js'
import { SchemaStore } from './schema-store.js'

const cleanUps: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

/** In virtual time. */
export function testMill(options: TestMillOptions = {}): TestMill {
  let made: Store | undefined
  const mill = new TestMill({
    ...options,
    store: (clock) => {
      made = makeStore(clock)
      return made
    },
  })
  stores.set(mill, made as Store)
  cleanUps.push(() => mill.close())
  return mill
}

/** The store under a test's mill. */
export function storeOf(mill: TestMill): Store {
  return stores.get(mill) as Store
}

/** As an operator does, whatever became of the job. */
export async function replay(mill: TestMill, ...ids: string[]): Promise<void> {
  await storeOf(mill).operate({ ids }, { do: 'retry', delay: 0, spacing: 0, change: {} })
}

const stores = new WeakMap<TestMill, Store>()

/** In real time. */
export function realMill(options: Omit<MillraceOptions, 'store'> = {}): Millrace {
  const mill = new Millrace({ ...options, store: realStore() })
  cleanUps.push(() => mill.close({ grace: 0 }))
  return mill
}

function makeStore(clock: VirtualClock): Store {
  if (engine === 'sqlite') return new SqliteStore({ file: file(), clock, synchronous: 'normal' })
  if (engine === 'postgres') return postgres(clock)
  if (isRedis) return redis(clock)
  return new MemoryStore({ clock })
}

function realStore(): string | Store {
  if (engine === 'sqlite') return `sqlite:${file()}`
  if (engine === 'postgres') return postgres()
  if (isRedis) return redis()
  return 'memory:'
}

function postgres(clock?: VirtualClock): Store {
  const store = new SchemaStore(clock)
  cleanUps.push(() => store.close())
  return store
}

function redis(clock?: VirtualClock): Store {
  const store = new RedisStore({
    url: redisUrl(),
    prefix: freshPrefix(),
    shards,
    warn: false,
    ...(clock && { clock }),
  })
  cleanUps.push(() => store.close())
  return store
}

/** Gone after the test. */
export function freshPrefix(): string {
  const prefix = takePrefix()
  cleanUps.push(() => forgetPrefix(prefix))
  return prefix
}

export function file(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'))
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'jobs.db')
}

/** A promise and the function that resolves it. */
export function signal<T = void>(): { promise: Promise<T>; give: (value: T) => void } {
  let give: (value: T) => void = () => {}
  const promise = new Promise<T>((resolve) => {
    give = resolve
  })
  return { promise, give }
}

/** Claims all there is as a worker that is never heard of again. */
export async function vanish(mill: TestMill, worker: string): Promise<readonly string[]> {
  return (await claimAs(mill, worker, 100)).map((job) => job.id)
}

/** What a worker gets that is no more than its name. */
export async function claimAs(mill: TestMill, worker: string, count: number): Promise<readonly ClaimedJob[]> {
  const { claimed } = await storeOf(mill).exchange({
    worker,
    settlements: [],
    claim: {
      token: worker,
      lease: 30_000,
      room: { shared: count, own: [0, 0, 0, 0] },
      picks: [{ queue: 'default', lane: 2, take: count }],
      turn: 0,
    },
  })
  return claimed
}
