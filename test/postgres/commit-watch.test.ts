/** What is told after the commit of a caller's transaction. */
import type { Signal } from 'millrace'
import { PostgresStore } from 'millrace/postgres'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CommitWatch } from '../../src/databases/postgres/commit-watch.js'
import { both, type CommitNews } from '../../src/stores/postgres/commit-news.js'
import { newJob } from '../new-job.js'
import { freshSchema, open, serverUrl, signal, sql } from './postgres.js'

describe('after the commit of a caller', () => {
  test('this process and others hear that a plain job is ready, and not before', async () => {
    const { store, own, other, client } = await two()
    await client.query('BEGIN')
    await store.insert([newJob({ id: 'a', queue: 'mail' })], client)
    await settled(client)
    expect([own.heard, other.heard]).toEqual([[], []])
    await client.query('COMMIT')
    expect(await Promise.all([own.ready('mail'), other.ready('mail')])).toEqual(['mail', 'mail'])
  })

  test('a delayed one is told of as well', async () => {
    const { store, own, client } = await two()
    await client.query('BEGIN')
    await store.insert([newJob({ id: 'a', delay: 60_000 })], client)
    await client.query('COMMIT')
    expect(await own.next('due')).toMatchObject({ type: 'due', delay: 60_000 })
  })

  test('the desk admits what is not plain, and others hear of it', async () => {
    const { store, other, second, client } = await two()
    await client.query('BEGIN')
    const traffic = { gated: false, group: 'g', key: undefined }
    for (let i = 0; i < 150; i++)
      await store.insert([newJob({ id: `job-${i}`, queue: 'mail', traffic })], client)
    await client.query('COMMIT')
    expect(await other.ready('mail')).toBe('mail')
    expect(await second.counts()).toMatchObject({
      kinds: [{ queue: 'mail', states: { pending: expect.anything() } }],
    })
    expect((await second.get(['job-149']))[0]?.state).toBe('pending')
  })

  test('a rollback is forgotten', async () => {
    const { store, own, other, client } = await two()
    await client.query('BEGIN')
    await store.insert([newJob({ id: 'a', queue: 'undone' })], client)
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    await store.insert([newJob({ id: 'b', queue: 'done' })], client)
    await client.query('COMMIT')
    await Promise.all([own.ready('done'), other.ready('done')])
    expect([...own.heard, ...other.heard].filter(({ type }) => type === 'ready')).toEqual([])
  })
})

describe('the watch', () => {
  test('tells of all that one transaction brought at once', async () => {
    const { watch, next, xid } = await watching()
    const [id, commit] = await xid()
    watch.watch(id, { ready: new Set(['a']), soonest: 9, arrivals: 0 })
    watch.watch(id, { ready: new Set(['b']), soonest: 7, arrivals: 1 })
    watch.watch(id, { ready: new Set(), soonest: undefined, arrivals: 1 })
    expect(watch.size).toBe(1)
    await commit()
    expect(await next()).toEqual({ ready: new Set(['a', 'b']), soonest: 7, arrivals: 2 })
    expect(watch.size).toBe(0)
  })

  test('a transaction that the server does not know yet holds up no other', async () => {
    const { watch, next, xid } = await watching()
    watch.watch('999999999999', news('lost'))
    const [id, commit] = await xid()
    await commit()
    await forgotten(watch)
    watch.watch(id, news('mail'))
    expect(await next()).toEqual(news('mail'))
  })

  test('is not put off by those that come all the time', async () => {
    const { watch, next, xid } = await watching()
    const [id, commit] = await xid()
    await commit()
    watch.watch(id, news('mail'))
    let more = true
    const told = next().finally(() => {
      more = false
    })
    for (let other = 3; more; other++) {
      watch.watch(String(other % 500), news('other'))
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await told
  })

  test('watches a bounded number', async () => {
    const { watch } = await watching()
    for (let id = 3; id < 2_003; id++) watch.watch(String(id), news('mail'))
    expect(watch.size).toBe(1_000)
  })

  test('is silent once it has been stopped', async () => {
    const { watch, heard, xid } = await watching()
    const [id, commit] = await xid()
    watch.watch(id, news('mail'))
    await commit()
    watch.stop()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect([watch.size, heard]).toEqual([0, []])
  })
})

function news(queue: string): CommitNews {
  return { ready: new Set([queue]), soonest: undefined, arrivals: 0 }
}

async function forgotten(watch: CommitWatch<CommitNews>): Promise<void> {
  while (watch.size > 0) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** The watch has looked at a transaction that is still open. */
async function settled(client: pg.Client): Promise<void> {
  await client.query('SELECT pg_sleep(0.05)')
}

async function watching() {
  const connection = await open()
  const heard: CommitNews[] = []
  let told = signal<CommitNews>()
  const watch = new CommitWatch(connection, both, (one) => {
    heard.push(one)
    told.resolve(one)
  })
  onTestFinished(() => watch.stop())
  const next = async () => {
    const one = await told.promise
    told = signal()
    return one
  }
  /** A transaction of its own, and what commits it. */
  const xid = async (): Promise<[string, () => Promise<void>]> => {
    const transaction = await connection.begin()
    const { rows } = await transaction.query(sql('SELECT pg_current_xact_id()::text AS id'))
    return [rows[0].id, () => transaction.commit()]
  }
  return { watch, heard, next, xid }
}

/** Two stores as two processes have them, and a caller. */
async function two() {
  const schema = freshSchema()
  const [store, second] = [await opened(schema), await opened(schema)]
  const client = new pg.Client(serverUrl())
  await client.connect()
  onTestFinished(() => client.end())
  return { store, second, own: ears(store), other: ears(second), client }
}

async function opened(schema: string): Promise<PostgresStore> {
  const store = new PostgresStore({ url: serverUrl(), schema, poolSize: 3 })
  await store.open()
  onTestFinished(() => store.close())
  return store
}

/** What a store tells, to be awaited one by one; `heard` has what nobody awaited. */
function ears(store: PostgresStore) {
  const heard: Signal[] = []
  const waiting: { type: Signal['type']; give: (signal: Signal) => void }[] = []
  store.subscribe((one) => {
    const i = waiting.findIndex(({ type }) => type === one.type)
    if (i === -1) heard.push(one)
    else waiting.splice(i, 1)[0]?.give(one)
  })
  const next = (type: Signal['type']): Promise<Signal> => {
    const i = heard.findIndex((one) => one.type === type)
    if (i !== -1) return Promise.resolve(heard.splice(i, 1)[0] as Signal)
    return new Promise((give) => waiting.push({ type, give }))
  }
  const ready = async (queue: string): Promise<string> => {
    const one = await next('ready')
    return one.type === 'ready' && one.queues.has(queue) ? queue : ready(queue)
  }
  return { heard, next, ready }
}
