/** A relay that is told of rows by the server's write-ahead log, and polls when it is not. */
import { Outbox, type OutboxOptions, postgresOutbox, type Relay, type RelayOptions } from 'millrace/outbox'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { next, Recorder } from '../outbox/outboxes.js'
import { type PostgresServer, startPostgres } from '../servers/postgres.js'

let server: PostgresServer
let schemas = 0

beforeAll(async () => {
  if (process.env.MILLRACE_POSTGRES_URL === undefined)
    server = await startPostgres({
      settings: { wal_level: 'logical', max_wal_senders: 8, max_replication_slots: 8 },
    })
})
afterAll(() => server?.stop())

const test_ = test.skipIf(process.env.MILLRACE_POSTGRES_URL !== undefined) // its wal_level is not ours to set

test_('hands on what was there before, and then what is committed, in order and once', async () => {
  const { outbox, write } = await ground()
  const recorder = new Recorder()
  for (let i = 0; i < 50; i++) await write(`${i}`)
  const relay = relayOf(outbox, recorder)
  const following = next(relay, 'following')
  await relay.start()
  for (let i = 50; i < 100; i++) await write(`${i}`)
  expect(await following).toEqual({ kind: 'message', on: true })
  for (let i = 100; i < 200; i++) await write(`${i}`)
  await recorder.took(200)
  expect(recorder.ids).toEqual(Array.from({ length: 200 }, (_, i) => `${i}`))
  await empty(outbox)
  expect(relay.lag).toBeLessThan(2 ** 24)
})

test_('a rollback is never told, and a transaction only when it has committed', async () => {
  const { outbox, client, following, recorder } = await followed()
  await client.query('BEGIN')
  await outbox.publish(client, 'a', 1, { id: 'undone' })
  await client.query('ROLLBACK')
  const other = await connect()
  await other.query('BEGIN')
  await outbox.publish(other, 'a', 2, { id: 'late' })
  await client.query('BEGIN')
  await outbox.publish(client, 'a', 3, { id: 'early' })
  await client.query('COMMIT')
  await recorder.took(1)
  await other.query('COMMIT')
  await recorder.took(2)
  expect(recorder.ids).toEqual(['early', 'late'])
  expect(following.changes).toEqual([true])
})

test_('a row that is refused makes it poll until that is over; nothing overtakes it', async () => {
  const { outbox, write, following, recorder } = await followed({
    attempts: 3,
    backoff: { initialDelay: 1, maxDelay: 1 },
  })
  recorder.answer = ({ id }) => (id === 'bad' ? { status: 'refused', error: new Error('no') } : 'published')
  await write('bad')
  await write('behind')
  await recorder.took(1)
  expect(recorder.ids).toEqual(['behind'])
  expect((await outbox.aside.list()).rows.map(({ id }) => id)).toEqual(['bad'])
  await following.until([true, false, true])
  await write('after')
  await recorder.took(2)
})

test_('another relay goes on when the one that follows is gone, without a slot left behind', async () => {
  const { write, following, recorder, schema } = await followed()
  const second = new Recorder()
  const other = relayOf(await outboxOf(schema), second)
  await other.start()
  await write('first')
  await recorder.took(1)
  const admin = await connect()
  const slots = () => admin.query('SELECT FROM pg_replication_slots').then(({ rowCount }) => rowCount)
  expect(await slots()).toBe(1)
  const taken = next(other, 'following')
  await following.relay.stop()
  expect(await taken).toEqual({ kind: 'message', on: true })
  await write('second')
  await second.took(1)
  expect(second.ids).toEqual(['second'])
  await other.stop()
  while ((await slots()) !== 0) await new Promise((resolve) => setTimeout(resolve, 10))
})

test_('a connection that is terminated, either of both, is made again', async () => {
  const { write, following, recorder } = await followed()
  const admin = await connect()
  const ends = [
    'SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots',
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid() LIMIT 1",
  ]
  let written = 0
  for (const [i, end] of ends.entries()) {
    await admin.query(end)
    for (let k = 0; k < 5; k++) await write(`${written++}`)
    await following.until([true, ...Array.from({ length: i + 1 }, () => [false, true]).flat()])
  }
  await recorder.took(10)
  expect(new Set(recorder.ids).size).toBe(10)
})

test_('a server that keeps too much of its log for it is let go', async () => {
  const { write, recorder, following, outbox } = await followed({ maxLag: 2 ** 20 })
  let release = () => {}
  const begun = new Promise<void>((stuck) => {
    recorder.answer = () =>
      new Promise((answer) => {
        release = () => answer('published')
        stuck()
      })
  })
  await write('slow')
  await begun
  const admin = await connect()
  await admin.query("CREATE TABLE filler AS SELECT repeat('x', 100) AS text FROM generate_series(1, 20000)")
  const told = next(following.relay, 'error')
  recorder.answer = () => 'published'
  release()
  expect((await told).error).toMatchObject({ message: expect.stringContaining('more than maxLag') })
  await write('later')
  await recorder.took(2)
  await empty(outbox)
})

test('a server that cannot do it says what to set', async () => {
  const plain = process.env.MILLRACE_TEST_POSTGRES_URL as string
  const level = await asClient(plain, (client) => client.query('SHOW wal_level'))
  if (level.rows[0].wal_level === 'logical') return
  const { outbox, write } = await ground(plain)
  const recorder = new Recorder()
  const relay = relayOf(outbox, recorder)
  const told = next(relay, 'error')
  await relay.start()
  expect((await told).error).toMatchObject({
    code: 'STORE_REFUSED',
    message: expect.stringContaining('wal_level = logical'),
  })
  await write('polled')
  await recorder.took(1)
})

async function ground(url = server.url) {
  const schema = `outbox_${process.pid}_${schemas++}`
  const outbox = await outboxOf(schema, url)
  onTestFinished(async () => {
    await asClient(url, (client) => client.query(`DROP SCHEMA "${schema}" CASCADE`))
  })
  const client = await connect(url)
  const write = async (id: string, key = 'one') => {
    await client.query('BEGIN')
    await outbox.publish(client, 'steps', id, { id, key })
    await client.query('COMMIT')
  }
  return { outbox, client, write, schema }
}

async function outboxOf(schema: string, url = server.url): Promise<Outbox> {
  const options: OutboxOptions = { store: postgresOutbox({ url, schema }) }
  const outbox = new Outbox(options)
  await outbox.open()
  onTestFinished(() => outbox.close())
  return outbox
}

/** Only ever woken by the stream, or by looking seldom. */
function relayOf(outbox: Outbox, publisher: Recorder, options: Partial<RelayOptions> = {}): Relay {
  const relay = outbox.relay({
    publisher,
    source: 'replication',
    handleSignals: false,
    poll: 200,
    ...options,
  })
  relay.on('error', () => {})
  return relay
}

/** With a relay that follows. */
async function followed(options: Partial<RelayOptions> = {}) {
  const on = await ground()
  const recorder = new Recorder()
  const relay = relayOf(on.outbox, recorder, options)
  const changes: boolean[] = []
  let changed = () => {}
  relay.on('following', (told) => {
    changes.push(told.on)
    changed()
  })
  const until = async (wanted: readonly boolean[]) => {
    while (changes.length < wanted.length) await new Promise<void>((resolve) => (changed = resolve))
    expect(changes).toEqual(wanted)
  }
  await relay.start()
  await until([true])
  return { ...on, recorder, following: { relay, changes, until } }
}

async function empty(outbox: Outbox): Promise<void> {
  while ((await outbox.stats()).waiting.message > 0) await new Promise((resolve) => setTimeout(resolve, 10))
}

async function connect(url = server.url): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

async function asClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return work(client).finally(() => client.end())
}
