/** What only a file has: several processes, the caller's own transaction, damage, versions. */
import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import Database from 'better-sqlite3'
import { defineJob, Millrace, type MillraceError } from 'millrace'
import { SqliteStore } from 'millrace/sqlite'
import { describe, expect, test } from 'vitest'
import { file } from '../engine/mill.js'
import { newJob } from '../new-job.js'

const mail = defineJob({ name: 'mail', run: (to: string) => to })

describe('SQLite', () => {
  describe('the caller’s own transaction', () => {
    test('the job exists if and only if it commits', async () => {
      const path = file()
      const mill = new Millrace({ store: `sqlite:${path}`, jobs: [mail] })
      await mill.open()
      const db = new Database(path)
      db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, who TEXT)')
      const place = db.transaction((who: string, fail: boolean) => {
        db.prepare('INSERT INTO orders (who) VALUES (?)').run(who)
        void mill.enqueue(mail, who, { tx: db, id: `mail-${who}` })
        if (fail) throw new Error('changed my mind')
      })
      place('ann', false)
      expect(() => place('bob', true)).toThrow('changed my mind')
      place('cid', false)
      expect(db.prepare('SELECT who FROM orders').pluck().all()).toEqual(['ann', 'cid'])
      expect(await mill.job('mail-ann').get()).toMatchObject({ state: 'pending' })
      expect(await mill.job('mail-bob').get()).toBeUndefined()
      expect((await mill.stats()).states.pending).toBe(2)
      const worker = mill.worker({ handleSignals: false })
      await worker.start()
      expect(await mill.job('mail-cid', mail).result({ timeout: '5s' })).toBe('cid')
      db.close()
      await mill.close()
    })

    test('a refused input throws at once, so that the transaction rolls back', async () => {
      const path = file()
      const mill = new Millrace({ store: `sqlite:${path}`, jobs: [mail] })
      await mill.open()
      const db = new Database(path)
      const place = db.transaction(() => void mill.enqueue(mail, (() => 1) as never, { tx: db }))
      expect(place).toThrow(/cannot be stored/)
      expect(() => mill.enqueue(mail, 'x', { tx: db })).toThrow(/inside a transaction/)
      db.close()
      await mill.close()
    })
  })

  test('jobs outlive the process that enqueued them, and ids stay idempotent', async () => {
    const path = file()
    const first = new Millrace({ store: `sqlite:${path}`, jobs: [mail] })
    await first.enqueue(mail, 'ann', { id: 'x' })
    await first.close()
    const second = new Millrace({ store: `sqlite:${path}`, jobs: [mail] })
    expect((await second.enqueue(mail, 'bob', { id: 'x' })).duplicate).toBe(true)
    await second.worker({ handleSignals: false }).start()
    expect(await second.job('x').result({ timeout: '5s' })).toBe('ann')
    await second.close()
  })

  test('another instance on the file runs the job, and cancel reaches it there', async () => {
    const path = file()
    const waits = defineJob({
      name: 'waits',
      timeout: 0,
      run: (_: null, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    })
    const producer = new Millrace({ store: `sqlite:${path}` })
    const consumer = new Millrace({ store: `sqlite:${path}`, jobs: [waits, mail] })
    await consumer.worker({ handleSignals: false }).start()
    expect(await (await producer.enqueue(mail, 'ann')).result({ timeout: '5s' })).toBe('ann')
    const job = await producer.enqueue(waits, null)
    for await (const { state } of job.watch()) if (state === 'running') break
    expect(await job.cancel('enough')).toBe('asked')
    await expect(job.result({ timeout: '5s' })).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
    await consumer.close()
    await producer.close()
  })

  test('a damaged row is set aside as dead, and the worker goes on', async () => {
    const path = file()
    const mill = new Millrace({ store: `sqlite:${path}`, jobs: [mail] })
    await mill.enqueue(mail, 'ann', { id: 'damaged', tags: ['t'] })
    await mill.enqueue(mail, 'bob', { id: 'fine' })
    const db = new Database(path)
    db.prepare(
      "UPDATE millrace_job SET input = '{oops', tags = 'oops', overrides = 'oops' WHERE id = 'damaged'",
    ).run()
    db.close()
    await mill.worker({ handleSignals: false }).start()
    expect(await mill.job('fine').result({ timeout: '5s' })).toBe('bob')
    await expect(mill.job('damaged').result({ timeout: '5s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    expect((await mill.dead.list()).jobs[0]?.failure).toMatchObject({ code: 'STORE_CORRUPT' })
    await mill.close()
  })

  test('a file that is none, or damaged, or of a newer version, is refused with a clear word', async () => {
    const open = (path: string) => new SqliteStore({ file: path, integrityCheck: 'quick' }).open()
    const text = file()
    writeFileSync(text, 'this is no database, but long enough to be taken for one'.repeat(100))
    await expect(open(text)).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
    await expect(open('/nowhere/at/all.db')).rejects.toMatchObject({ code: 'STORE_REFUSED' })
    const newer = file()
    const store = new SqliteStore({ file: newer })
    await store.open()
    await store.close()
    const db = new Database(newer)
    db.prepare('UPDATE millrace_schema SET version = 999').run()
    db.close()
    await expect(open(newer)).rejects.toThrow(/schema 999, made by a newer Millrace/)
  })

  test('opening fails now and works later, in the same instance', async () => {
    const path = file()
    writeFileSync(path, 'not yet a database '.repeat(200))
    const mill = new Millrace({ store: `sqlite:${path}`, jobs: [mail] })
    await expect(mill.open()).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
    writeFileSync(path, '')
    await mill.enqueue(mail, 'ann')
    expect((await mill.stats()).states.pending).toBe(1)
    await mill.close()
  })

  test('a file that another process holds is waited for without blocking, and STORE_BUSY in the end', async () => {
    const path = file()
    const mill = new Millrace({ store: new SqliteStore({ file: path, busyTimeout: '300ms' }), jobs: [mail] })
    await mill.open()
    const db = new Database(path)
    db.exec('BEGIN IMMEDIATE')
    let turns = 0
    const counting = setInterval(() => turns++, 5)
    await expect(mill.enqueue(mail, 'ann')).rejects.toMatchObject({
      code: 'STORE_BUSY',
    } satisfies Partial<MillraceError>)
    expect(turns).toBeGreaterThan(10)
    clearInterval(counting)
    const patient = mill.enqueue(mail, 'bob')
    setTimeout(() => db.exec('COMMIT'), 50)
    await patient
    db.close()
    await mill.close()
  })

  test('one bad write of a turn does not take the others along', async () => {
    const path = file()
    const store = new SqliteStore({ file: path })
    await store.open()
    const job = (id: string, name: string | null) => newJob({ id, name: name as string })
    const results = await Promise.allSettled([
      store.insert([job('a', 'n')]),
      store.insert([job('b', null)]),
      store.insert([job('c', 'n')]),
    ])
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((await store.get(['a', 'b', 'c'])).map((record) => record?.id)).toEqual(['a', undefined, 'c'])
    expect((await store.counts()).kinds[0]?.states.pending).toBe(2)
    await store.close()
  })

  test('many processes may open a fresh file at once', async () => {
    const path = file()
    const script = new URL('./fixtures/open-and-enqueue.mjs', import.meta.url)
    const codes = await Promise.all(
      Array.from(
        { length: 8 },
        () => new Promise((resolve) => fork(script, [path], { stdio: 'inherit' }).on('exit', resolve)),
      ),
    )
    expect(codes).toEqual(Array(8).fill(0))
    const mill = new Millrace({ store: `sqlite:${path}` })
    expect((await mill.stats()).states.pending).toBe(8 * 25)
    await mill.close()
  }, 60_000)
})
