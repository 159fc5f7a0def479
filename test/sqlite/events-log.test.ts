/** What only an event log in a file has: answers at once, the caller's own tables, jobs beside it, one writer at a time. */
import Database from 'better-sqlite3'
import { defineJob, Millrace } from 'millrace'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AppendResult, EventLog } from '../../src/events/log.js'
import { type SqliteLog, sqliteLog } from '../../src/events/logs/sqlite/index.js'
import { append, freshFile, namesOf, newAppend, newEvent, page, versionOf } from '../events/logs.js'

async function openLog(file = freshFile(), options: object = {}): Promise<SqliteLog> {
  const log = sqliteLog({ file, synchronous: 'normal', busyTimeout: '5s', ...options })
  onTestFinished(() => log.close())
  await log.open()
  return log
}

function connect(file: string): Database.Database {
  const db = new Database(file)
  onTestFinished(() => void db.close())
  return db
}

describe('in a transaction of the caller', () => {
  test('an append has happened when it returns, and what it returns is the answer', async () => {
    const file = freshFile()
    const log = await openLog(file)
    const db = connect(file)
    db.exec('CREATE TABLE orders (id INTEGER)')
    const place = db.transaction((id: number, expected: number) => {
      db.prepare('INSERT INTO orders VALUES (?)').run(id)
      const [result] = log.append([newAppend('s', expected)], db)
      if (result?.status !== 'appended') throw new Error('somebody was faster')
      return result
    })
    expect(place(1, 0)).toMatchObject({ status: 'appended', version: 1, position: 1 })
    expect(() => place(2, 0)).toThrow('somebody was faster')
    expect(place(3, 1)).toMatchObject({ version: 2 })
    expect(db.prepare('SELECT id FROM orders').pluck().all()).toEqual([1, 3])
    expect(await namesOf(log)).toEqual(['s@1', 's@2'])
  })

  test('checkpoints move at once as well', async () => {
    const file = freshFile()
    const log = await openLog(file)
    const db = connect(file)
    await log.declare({ name: 'p', parts: 1, after: 0 })
    const part = { name: 'p', generation: 1, part: 0, token: 't' }
    await log.hold({ ...part, owner: 'w', lease: 60_000 })
    db.transaction(() => void log.advance({ ...part, position: 4, done: false }, db))()
    expect(await log.projections()).toMatchObject([{ checkpoints: [{ position: 4 }] }])
  })

  test('numbers are numbers, whatever the connection makes of its own', async () => {
    const file = freshFile()
    const log = await openLog(file)
    const db = connect(file).defaultSafeIntegers(true)
    const given = newAppend('s', 'any', 2)
    const results = db.transaction(() => [
      ...log.append([given, newAppend('s', 5)], db),
      ...log.append([given], db),
    ])()
    const first = results[0] as AppendResult & { at: number }
    expect(results).toEqual([
      { status: 'appended', version: 2, position: 2, at: first.at, repeated: false },
      { status: 'conflict', version: 2 },
      { ...first, repeated: true },
    ])
  })

  test('an id that is taken throws at once, and leaves the transaction as it was', async () => {
    const file = freshFile()
    const log = await openLog(file)
    const db = connect(file)
    const taken = newAppend('a')
    await log.append([taken])
    db.transaction(() => {
      const twice = [newEvent(), taken.events[0] as never]
      for (const given of [{ ...taken, stream: 'c' }, newAppend('c', 'any', twice)])
        expect(() => log.append([newAppend('b'), given], db)).toThrow(/there is an event with the id/)
      log.append([newAppend('d')], db)
    })()
    expect(await namesOf(log)).toEqual(['a@1', 'd@1'])
    expect(await versionOf(log, 'b')).toBe(0)
  })

  test('of another file, or of none, is refused at once', async () => {
    const file = freshFile()
    const log = await openLog(file)
    const other = connect(freshFile())
    expect(() => log.append([newAppend('s')], connect(file))).toThrow(/inside a transaction/)
    other.transaction(() => {
      expect(() => log.append([newAppend('s')], other)).toThrow(/but the events are in/)
    })()
  })
})

test('jobs and events share a file, and a transaction', async () => {
  const file = freshFile()
  const log = await openLog(file)
  const mail = defineJob({ name: 'mail', run: (to: string) => to })
  const mill = new Millrace({ store: `sqlite:${file}`, jobs: [mail] })
  onTestFinished(() => mill.close())
  await mill.open()
  const db = connect(file)
  const place = db.transaction((who: string, fails: boolean) => {
    log.append([newAppend(`order-${who}`, 'none')], db)
    void mill.enqueue(mail, who, { tx: db, id: who })
    if (fails) throw new Error('changed my mind')
  })
  place('ann', false)
  expect(() => place('bob', true)).toThrow('changed my mind')
  expect(await namesOf(log)).toEqual(['order-ann@1'])
  expect(await mill.job('ann').state()).toBe('pending')
  expect(await mill.job('bob').get()).toBeUndefined()
})

describe('one writer at a time', () => {
  test('appends wait for a transaction of the log, while everything else goes on', async () => {
    const log = await openLog()
    const transaction = await log.begin()
    log.append([newAppend('a', 'none')], transaction.tx)
    let isDone = false
    const waits = append(log, 'a', 1).then((result) => {
      isDone = true
      return result
    })
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      expect((await page(log)).events).toEqual([])
    }
    expect(isDone).toBe(false)
    await transaction.commit()
    expect(await waits).toMatchObject({ version: 2 })
  })

  test('whoever waits too long is told so, and nothing was written', async () => {
    const log = await openLog(freshFile(), { busyTimeout: 100 })
    const transaction = await log.begin()
    await expect(append(log, 'a')).rejects.toMatchObject({ code: 'STORE_BUSY' })
    await expect(log.begin()).rejects.toMatchObject({ code: 'STORE_BUSY' })
    await transaction.rollback()
    expect(await namesOf(log)).toEqual([])
  })

  test('an open transaction is rolled back when the log is closed', async () => {
    const file = freshFile()
    const log = await openLog(file)
    const transaction = await log.begin()
    log.append([newAppend('a')], transaction.tx)
    await log.close()
    await expect(transaction.commit()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(append(log, 'a')).rejects.toMatchObject({ code: 'CLOSED' })
    await log.open()
    expect(await namesOf(log)).toEqual([])
    expect(await append(log, 'a', 'none')).toMatchObject({ status: 'appended' })
  })
})

describe('the file', () => {
  test('is made once by many that open at once', async () => {
    const file = freshFile()
    const logs = await Promise.all(Array.from({ length: 5 }, () => openLog(file)))
    await Promise.all(logs.map((log) => append(log, 's')))
    expect(await versionOf(logs[0] as EventLog, 's')).toBe(5)
  })

  test('of a newer version is refused', async () => {
    const file = freshFile()
    await openLog(file)
    connect(file).exec('UPDATE millrace_events_schema SET version = 99')
    await expect(openLog(file)).rejects.toMatchObject({ code: 'STORE_REFUSED', value: 99 })
  })

  test('that is a memory has no transactions of the log', async () => {
    const log = await openLog(':memory:')
    await append(log, 's')
    await expect(log.begin()).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'file' })
    expect(await namesOf(log)).toEqual(['s@1'])
  })
})

test('large categories are gone through in portions, round after round', async () => {
  const file = freshFile()
  const log = await openLog(file)
  for (let i = 10; i < 35; i++) await log.append([newAppend(`order-${i}`, 'any', 999)])
  const age = connect(file).prepare('UPDATE millrace_event SET at = 0 WHERE stream = ? AND version > ?')
  const query = { category: 'order', age: 60_000, superseded: false, through: 1e9, limit: 10 }
  const look = async () =>
    (await log.surplus(query)).events.map(({ stream, version }) => `${stream}@${version}`)
  age.run('order-34', 996)
  const last = ['order-34@997', 'order-34@998', 'order-34@999']
  expect((await log.surplus(query)).more).toBe(true)
  expect([await look(), await look()]).toEqual([[], last])
  expect((await log.surplus(query)).more, 'the end').toBe(false)
  expect(await look(), 'until they are removed').toEqual(last)
  age.run('order-10', 998)
  expect(await look()).toEqual(last)
  await log.remove((await log.surplus(query)).events.map(({ position }) => position))
  expect([await look(), await look()], 'the end, and the next round').toEqual([[], ['order-10@999']])
})
