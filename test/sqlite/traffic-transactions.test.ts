/** Jobs with limits that come by the caller's own transaction. */
import Database from 'better-sqlite3'
import { type DepthOptions, defineJob, Millrace, type NewJob } from 'millrace'
import { SqliteStore } from 'millrace/sqlite'
import { afterEach, expect, test } from 'vitest'
import { file } from '../engine/mill.js'
import { newJob } from '../new-job.js'
import { outcomeOf } from '../outcome.js'

const opened: { close(): unknown }[] = []

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

test('jobs of the caller’s transaction obey limits, and those of one that is rolled back leave no trace', async () => {
  const path = file()
  const store = new SqliteStore({ file: path, synchronous: 'normal' })
  await store.open()
  const db = new Database(path)
  opened.push(db, store)
  await store.configure({
    gate: { of: 'job', name: 'mail' },
    change: { each: { concurrency: 1 } },
    declared: true,
  })
  const [first] = await enqueueAndClaim(store, ['1'])

  const insert = db.transaction((ids: string[], fail: boolean) => {
    void store.insert(
      ids.map((id) => job(id)),
      db,
    )
    if (fail) throw new Error('changed my mind')
  })
  expect(() => insert(['2', '3'], true)).toThrow('changed my mind')
  expect(await pending(store)).toBe(0)
  insert(['4', '5'], false)
  expect(await pending(store)).toBe(2)
  expect(() => insert(['6'], true)).toThrow('changed my mind')
  await store.insert([job('7')])
  expect(await pending(store)).toBe(3)
  expect(await claim(store)).toEqual([])

  const seen: string[] = []
  for (let running = first; running !== undefined; running = (await claim(store))[0]) {
    seen.push(running.id)
    const settlements = [{ id: running.id, token: running.token, outcome: completed, inserts: undefined }]
    await store.exchange({ worker: 'w', settlements, claim: undefined })
  }
  expect(seen).toEqual(['1', '4', '5', '7'])
  expect((await store.gates({ of: 'key', limit: 10 })).gates).toEqual([])
})

for (const overflow of ['reject', 'wait', 'shed'] as const) {
  test(`a full queue (${overflow}) rolls the caller’s transaction back`, async () => {
    const { mill, db, order } = await shop({ max: 2, overflow })
    await mill.enqueueMany(mail, [1, 2], { priority: 'critical' })
    expect(() => order('low')).toThrow(expect.objectContaining({ code: 'QUEUE_FULL', depth: 2, limit: 2 }))
    expect(db.prepare('SELECT count(*) FROM orders').pluck().get()).toBe(0)
    const { states, totals } = await mill.stats()
    expect([states.pending, totals.shed]).toEqual([2, 0])
  })
}

test('an error that the caller catches leaves its own writes and nothing of the job', async () => {
  const { mill, db } = await shop({ max: 1, overflow: 'reject' })
  await mill.enqueue(mail, 1)
  db.transaction(() => {
    db.prepare('INSERT INTO orders VALUES (1)').run()
    expect(() => mill.enqueue(mail, 2, { tx: db })).toThrow("queue 'default' is full")
  })()
  expect(db.prepare('SELECT count(*) FROM orders').pluck().get()).toBe(1)
  expect((await mill.stats()).states.pending).toBe(1)
})

test('a signal that is aborted already throws in a transaction at once', async () => {
  const { mill, db } = await shop({ max: 1 })
  const signal = AbortSignal.abort(new Error('enough'))
  db.transaction(() => expect(() => mill.enqueue(mail, 1, { tx: db, signal })).toThrow('enough'))()
  expect((await mill.stats()).states.pending).toBe(0)
})

test('a queue that puts jobs off takes those of a transaction too', async () => {
  const { mill, order } = await shop({ max: 2, overflow: 'shed', defer: '1m' })
  await mill.enqueueMany(mail, [1, 2], { priority: 'critical' })
  const [mailed] = order('low')
  expect((await mailed)?.status).toBe('deferred')
})

const mail = defineJob({ name: 'mail', run: () => {} })

/** Orders come with their mail, or not at all. */
async function shop(depth: DepthOptions) {
  const path = file()
  const mill = new Millrace({ store: `sqlite:${path}`, queues: { default: { depth } } })
  await mill.open()
  const db = new Database(path)
  opened.push(db, mill)
  db.exec('CREATE TABLE orders (id)')
  const order = db.transaction((priority: 'low') => {
    db.prepare('INSERT INTO orders VALUES (1)').run()
    return [mill.enqueue(mail, 3, { tx: db, priority })]
  })
  return { mill, db, order }
}

const completed = outcomeOf({ to: 'completed' })

async function enqueueAndClaim(store: SqliteStore, ids: readonly string[]) {
  await store.insert(ids.map((id) => job(id)))
  return claim(store)
}

let claims = 0

async function claim(store: SqliteStore) {
  const room = { shared: 5, own: [0, 0, 0, 0] }
  const picks = [{ queue: 'main', lane: 2, take: 5 }]
  const request = { token: `claim-${++claims}`, lease: 60_000, room, picks, turn: 0 }
  return (await store.exchange({ worker: 'w', settlements: [], claim: request })).claimed
}

async function pending(store: SqliteStore): Promise<number> {
  const { gates } = await store.gates({ of: 'key', owner: 'mail', names: ['k'], limit: 1 })
  return gates[0]?.pending ?? 0
}

function job(id: string): NewJob {
  return newJob({ id, traffic: { gated: true, group: undefined, key: 'k' } })
}
