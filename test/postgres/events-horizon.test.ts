/** Readers beside writers that take their time: nothing is skipped, nothing comes twice, nobody waits for nothing. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog, StoredEvent } from '../../src/events/log.js'
import { postgresLog } from '../../src/events/logs/postgres/index.js'
import { Random } from '../chaos/random.js'
import { append, nameOf, namesOf, newAppend, page } from '../events/logs.js'
import { type PostgresServer, startPostgres } from '../servers/postgres.js'
import { until } from '../servers/until.js'
import { asAdmin, freshSchema, notOurs, serverUrl } from './postgres.js'

async function openLog(schema = freshSchema(), url = serverUrl()): Promise<EventLog> {
  const log = postgresLog({ url, schema, poolSize: 4 })
  onTestFinished(() => log.close())
  await log.open()
  return log
}

/** A caller's connection, in a transaction. */
async function begun(url = serverUrl()): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end().catch(() => {}))
  await client.query('BEGIN')
  return client
}

test('8 writers with delays between insert and commit, 2 readers, some rollbacks, no loss', async () => {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
  const schema = freshSchema()
  const logs = await Promise.all([openLog(schema), openLog(schema)])
  const over = new AbortController()
  const readers = logs.map((log) => follow(log, over.signal))
  const written = new Set<string>()
  const pool = new pg.Pool({ connectionString: serverUrl(), max: 8 })
  onTestFinished(() => pool.end())
  await Promise.all(
    Array.from({ length: 8 }, (_, i) => write(logs[i % 2] as EventLog, new Random(seed).fork(`writer ${i}`))),
  )
  over.abort()
  for (const seen of await Promise.all(readers)) {
    const positions = seen.map(({ position }) => position)
    expect(positions, `MILLRACE_SEED=${seed}`).toEqual([...new Set(positions)].sort((a, b) => a - b))
    expect(seen.length, `MILLRACE_SEED=${seed}`).toBe(written.size)
    expect(seen.every(({ id }) => written.has(id))).toBe(true)
    const versions = new Map<string, number>()
    for (const { stream, version } of seen) {
      expect(version, `MILLRACE_SEED=${seed} ${stream}`).toBe((versions.get(stream) ?? 0) + 1)
      versions.set(stream, version)
    }
  }
  expect(written.size).toBeGreaterThan(2_000)

  async function write(log: EventLog, random: Random): Promise<void> {
    for (let i = 0; i < 75; i++) {
      // Streams of its own and shared ones: some wait for each other's locks, with positions given out or not.
      const appends = [newAppend(`s-${random.integer(0, 40)}`, 'any', random.integer(1, 4))]
      if (random.chance(0.5))
        appends.push(newAppend(`t-${random.integer(0, 1000)}`, 'any', random.integer(2, 6)))
      if (random.chance(0.3)) {
        await log.append(appends)
        for (const { events } of appends) for (const { id } of events) written.add(id)
      } else await inTransaction(log, random, appends)
    }
  }

  async function inTransaction(log: EventLog, random: Random, appends: ReturnType<typeof newAppend>[]) {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      if (random.chance(0.3)) await sleep(random.integer(0, 5))
      await log.append(appends, client)
      await sleep(random.integer(0, 10))
      const commits = random.chance(0.85)
      await client.query(commits ? 'COMMIT' : 'ROLLBACK')
      if (commits) for (const { events } of appends) for (const { id } of events) written.add(id)
    } finally {
      client.release()
    }
  }
})

/** Reads on, in pages, until it is over and there is nothing left. */
async function follow(log: EventLog, over: AbortSignal): Promise<StoredEvent[]> {
  const seen: StoredEvent[] = []
  for (let after = 0; ; ) {
    const wasOver = over.aborted
    const { events, through, more, pending } = await page(log, { after, limit: 50 })
    seen.push(...events)
    after = through
    if (wasOver && !more && !pending) return seen
    if (!more) await sleep(2)
  }
}

describe('a writer that is at work', () => {
  test('holds up readers at its position, and no sooner', async () => {
    const log = await openLog()
    const writer = await begun()
    await append(log, 'before')
    await log.append([newAppend('slow')], writer)
    await append(log, 'after')
    expect(await namesOf(log)).toEqual(['before@1'])
    const first = await page(log)
    expect(first).toMatchObject({ through: 1, more: true, pending: false })
    expect(await page(log, { after: 1 })).toEqual({ events: [], through: 1, more: false, pending: true })
    expect(await log.end()).toBe(1)
    await writer.query('COMMIT')
    expect(await namesOf(log)).toEqual(['before@1', 'slow@1', 'after@1'])
    expect(await log.end()).toBe(3)
  })

  test('holds up a reader that has just come as well, from whatever position', async () => {
    const schema = freshSchema()
    const log = await openLog(schema)
    const writer = await begun()
    await append(log, 'before')
    await log.append([newAppend('slow')], writer)
    await append(log, 'after', 'any', 3)
    const other = await openLog(schema)
    expect(await page(other, { after: 1 })).toMatchObject({ events: [], pending: true })
    expect(await other.end(), 'nobody knows what is below').toBeLessThanOrEqual(1)
    await writer.query('COMMIT')
    expect((await page(other, { after: 1 })).events.map(nameOf)).toEqual([
      'slow@1',
      'after@1',
      'after@2',
      'after@3',
    ])
  })

  test('that rolled back holds up nobody, although its connection stays open', async () => {
    const log = await openLog()
    const writer = await begun()
    await log.append([newAppend('undone', 'any', 5)], writer)
    await append(log, 'a')
    await writer.query('ROLLBACK')
    expect(await page(log)).toMatchObject({ events: [{ stream: 'a' }], pending: false })
    await writer.query('BEGIN; SELECT pg_current_xact_id()')
    await append(log, 'b')
    expect(await namesOf(log)).toEqual(['a@1', 'b@1'])
    expect(await log.end()).toBe((await page(log)).through)
  })

  test('that went back to a savepoint holds up nobody, until it appends again', async () => {
    const log = await openLog()
    const writer = await begun()
    await writer.query('SAVEPOINT s')
    await log.append([newAppend('undone')], writer)
    await writer.query('ROLLBACK TO s')
    await append(log, 'a')
    expect(await namesOf(log)).toEqual(['a@1'])
    await writer.query('SAVEPOINT t')
    await log.append([newAppend('kept')], writer)
    await writer.query('RELEASE t')
    await append(log, 'b')
    expect(await namesOf(log)).toEqual(['a@1'])
    await writer.query('COMMIT')
    expect(await namesOf(log)).toEqual(['a@1', 'kept@1', 'b@1'])
  })

  test('others that come after it do not hold up readers any longer than it does', async () => {
    const log = await openLog()
    const [first, second, third] = [await begun(), await begun(), await begun()]
    await log.append([newAppend('first')], first)
    await append(log, 'a')
    expect(await namesOf(log)).toEqual([])
    await log.append([newAppend('second')], second)
    await append(log, 'b')
    expect(await namesOf(log)).toEqual([])
    await first.query('ROLLBACK')
    expect(await namesOf(log), 'the second came later').toEqual(['a@1'])
    await log.append([newAppend('third')], third)
    await second.query('COMMIT')
    expect(await namesOf(log)).toEqual(['a@1', 'second@1', 'b@1'])
    await third.query('ROLLBACK')
  })

  test('whose connection is killed holds up nobody any longer', async () => {
    const log = await openLog()
    const writer = await begun()
    await log.append([newAppend('lost')], writer)
    await append(log, 'a')
    expect(await namesOf(log)).toEqual([])
    const { rows } = await writer.query('SELECT pg_backend_pid() AS pid')
    await asAdmin((admin) => admin.query('SELECT pg_terminate_backend($1)', [rows[0].pid]))
    const names = await until('the reader goes on', 5_000, async () => {
      const found = await namesOf(log)
      return found.length > 0 ? found : undefined
    })
    expect(names).toEqual(['a@1'])
  })

  test('holds up readers from the moment on when it has positions, before its events are written', async () => {
    const schema = freshSchema()
    const log = await openLog(schema)
    const gate = await begun()
    await gate.query(`SELECT pg_advisory_xact_lock(77, hashtext('${schema}'))`)
    await asAdmin((admin) =>
      admin.query(`CREATE FUNCTION ${schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock(77, hashtext('${schema}')); RETURN NEW; END $$;
        CREATE TRIGGER wait BEFORE INSERT ON ${schema}.event FOR EACH ROW WHEN (NEW.stream = 'slow')
        EXECUTE FUNCTION ${schema}.wait()`),
    )
    const slow = append(log, 'slow')
    await until('it waits in the middle of its write', 5_000, async () => {
      const { rows } = await gate.query('SELECT FROM pg_locks WHERE NOT granted AND classid = 77')
      return rows.length > 0 ? true : undefined
    })
    await append(log, 'a')
    expect(await page(log)).toMatchObject({ events: [], pending: true })
    await gate.query('COMMIT')
    await slow
    expect(await namesOf(log)).toEqual(['slow@1', 'a@1'])
  })

  test('in another schema is nobody of ours', async () => {
    const [log, other] = [await openLog(), await openLog()]
    const writer = await begun()
    await other.append([newAppend('slow')], writer)
    const undone = await begun()
    await log.append([newAppend('undone')], undone)
    await undone.query('ROLLBACK')
    await append(log, 'a')
    expect(await namesOf(log)).toEqual(['a@1'])
  })
})

test('transactions that have nothing to do with the log hold up nobody', async () => {
  const log = await openLog()
  const [writing, looking] = [await begun(), await begun()]
  await writing.query('CREATE TEMP TABLE t (i int); INSERT INTO t VALUES (1)')
  await looking.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1')
  const undone = await begun()
  await log.append([newAppend('undone')], undone)
  await undone.query('ROLLBACK')
  await append(log, 'a')
  expect(await page(log)).toMatchObject({ events: [{ stream: 'a' }], pending: false })
})

describe.skipIf(notOurs)('on a server that can be killed', () => {
  let server: PostgresServer

  beforeAll(async () => {
    server = await startPostgres({ durable: true, settings: { max_prepared_transactions: 5 } })
  })
  afterAll(() => server.stop())

  test('a prepared transaction holds up readers until it is decided, and over the end of the server', async () => {
    const log = await openLog('prepared', server.url)
    const writer = await begun(server.url)
    await log.append([newAppend('prepared')], writer)
    await append(log, 'a')
    expect(await namesOf(log)).toEqual([])
    await writer.query("PREPARE TRANSACTION 'one'")
    expect(await namesOf(log)).toEqual([])
    await server.kill()
    await server.start()
    expect(await namesOf(log), 'the log goes on by itself').toEqual([])
    await append(log, 'b')
    expect(await namesOf(log)).toEqual([])
    await asAdmin((admin) => admin.query("COMMIT PREPARED 'one'"), server.url)
    expect(await namesOf(log)).toEqual(['prepared@1', 'a@1', 'b@1'])
  })

  test('whoever was writing when it was killed holds up nobody, and nothing that was read is gone', async () => {
    const log = await openLog('killed', server.url)
    const writer = await begun(server.url)
    await log.append([newAppend('lost', 'any', 40)], writer)
    await append(log, 'a')
    expect(await namesOf(log)).toEqual([])
    await server.kill()
    await server.start()
    expect(await namesOf(log)).toEqual(['a@1'])
    const { through } = await page(log)
    await append(log, 'b')
    const next = await page(log, { after: through })
    expect(next.events.map(nameOf)).toEqual(['b@1'])
  })
})
