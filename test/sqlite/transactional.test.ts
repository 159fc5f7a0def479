/** Handlers that write in the transaction in which their job completes. */
import Database from 'better-sqlite3'
import {
  cancel,
  defineBatchJob,
  defineJob,
  type JobContext,
  Millrace,
  NonRetryableError,
  snooze,
} from 'millrace'
import { SqliteStore } from 'millrace/sqlite'
import { TestMill, type VirtualClock } from 'millrace/testing'
import { afterEach, describe, expect, test } from 'vitest'
import { file, signal } from '../engine/mill.js'
import { outcomeOf } from '../outcome.js'

const opened: { close(): unknown }[] = []

afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close()
})

type Work = (db: Database.Database, context: JobContext) => unknown

/** A ledger in the file of the jobs; the handler runs `work` in its transaction. */
function ledger(work: Work, options: { timeout?: string; maxAttempts?: number } = {}) {
  const path = file()
  const post = defineJob({
    name: 'post',
    transactional: true,
    maxAttempts: 1,
    ...options,
    run: async (_: null, context) => work(await context.tx<Database.Database>(), context),
  })
  const plain = defineJob({ name: 'plain', run: () => 'plain' })
  const mill = new TestMill({
    jobs: [post, plain],
    store: (clock) => new SqliteStore({ file: path, clock, synchronous: 'normal', busyTimeout: '5s' }),
  })
  const db = new Database(path)
  db.exec('CREATE TABLE entry (amount INTEGER CHECK (amount > 0))')
  opened.push(db, mill)
  const entries = () => db.prepare('SELECT amount FROM entry').pluck().all()
  return { mill, post, plain, db, entries }
}

const add = (db: Database.Database, amount: number) => db.prepare('INSERT INTO entry VALUES (?)').run(amount)

describe('transactional completion', () => {
  test('writes, result, added jobs, progress and events come together', async () => {
    const { mill, post, plain, entries } = ledger(async (db, { enqueue, progress, log }) => {
      add(db, 1)
      progress(50)
      log('half')
      await enqueue(plain, null, { id: 'added' })
      await mill.enqueue(plain, null, { tx: db, id: 'written' })
      add(db, 2)
      return { total: 3 }
    })
    const told: string[] = []
    for (const event of ['started', 'enqueued', 'completed', 'lost', 'failed'] as const)
      mill.on(event, ({ id }) => told.push(`${event} ${id}`))
    const job = await mill.enqueue(post, null, { id: 'post' })
    await mill.drain()
    expect(entries()).toEqual([1, 2])
    expect(await job.result()).toEqual({ total: 3 })
    const snapshot = await job.get()
    expect([snapshot?.progress, snapshot?.attempt]).toEqual([50, 1])
    expect(await job.logs()).toHaveLength(1)
    expect(await mill.job('added').result()).toBe('plain')
    expect(await mill.job('written').result()).toBe('plain')
    expect(told.filter((text) => text.endsWith('post'))).toEqual([
      'enqueued post',
      'started post',
      'completed post',
    ])
    expect(told).toContain('enqueued added')
    const { states, totals } = await mill.stats()
    expect([states.running, totals.completed, totals.enqueued]).toEqual([0, 3, 3])
  })

  const ends: [string, Work, string][] = [
    ['throws', () => Promise.reject(new NonRetryableError('no')), 'dead'],
    ['puts itself off', () => snooze('1h'), 'scheduled'],
    ['cancels itself', () => cancel('not wanted'), 'cancelled'],
    ['gives what cannot be stored', () => () => 1, 'dead'],
    ['violates a constraint', (db) => add(db, -1), 'dead'],
  ]
  for (const [what, end, state] of ends) {
    test(`a handler that ${what} leaves nothing behind`, async () => {
      const { mill, post, plain, entries } = ledger(async (db, { enqueue }) => {
        add(db, 1)
        await mill.enqueue(plain, null, { tx: db })
        await enqueue(plain, null)
        return end(db, {} as JobContext)
      })
      const job = await mill.enqueue(post, null)
      await mill.drain()
      expect(entries()).toEqual([])
      expect(await job.state()).toBe(state)
      expect((await mill.stats()).totals.enqueued).toBe(1)
    })
  }

  test('a failed attempt takes its writes with it, the next one commits its own', async () => {
    const { mill, post, entries } = ledger(
      (db, { attempt }) => {
        add(db, attempt)
        if (attempt < 3) throw new Error('again')
      },
      { maxAttempts: 3 },
    )
    const job = await mill.enqueue(post, null)
    await mill.drain({ later: true })
    expect(await job.state()).toBe('completed')
    expect(entries()).toEqual([3])
  })

  test('a timeout rolls back at once, and a handler that goes on can write nothing more', async () => {
    const began = signal()
    const went = signal<unknown>()
    const { mill, post, entries } = ledger(
      async (db, { signal: stop }) => {
        add(db, 1)
        began.give()
        await new Promise((resolve) => stop.addEventListener('abort', resolve))
        await new Promise((resolve) => setImmediate(resolve))
        try {
          add(db, 2)
        } catch (error) {
          went.give(error)
        }
        return 'as if nothing had happened'
      },
      { timeout: '1s' },
    )
    const job = await mill.enqueue(post, null)
    await mill.worker({ handleSignals: false }).start()
    await mill.clock.advance(0)
    await began.promise
    await mill.clock.advance(1_000)
    expect(String(await went.promise)).toContain('not open')
    await mill.clock.advance(10)
    expect((await job.get())?.failure?.code).toBe('JOB_TIMEOUT')
    expect(entries()).toEqual([])
  })

  test('the end of a shutdown’s grace rolls back, and gives the job back', async () => {
    const began = signal()
    const { mill, post, entries } = ledger(async (db) => {
      add(db, 1)
      began.give()
      await new Promise(() => {})
    })
    const job = await mill.enqueue(post, null)
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await began.promise
    await worker.stop({ grace: 0 })
    const snapshot = await job.get()
    expect([snapshot?.state, snapshot?.attempt, entries()]).toEqual(['pending', 0, []])
  })

  test('a cancel that came first leaves no transaction to write in', async () => {
    const began = signal()
    const stopped = signal()
    const refused = signal<unknown>()
    const path = file()
    const post = defineJob({
      name: 'post',
      transactional: true,
      run: async (_: null, { tx, signal: stop }) => {
        stop.addEventListener('abort', () => stopped.give())
        began.give()
        await stopped.promise
        await tx().catch(refused.give)
      },
    })
    const mill = new Millrace({ store: `sqlite:${path}`, jobs: [post] })
    opened.push(mill)
    await mill.worker({ handleSignals: false }).start()
    const job = await mill.enqueue(post, null)
    await began.promise
    await job.cancel('no')
    expect(await refused.promise).toMatchObject({ code: 'JOB_CANCELLED' })
  })

  test('a lease that was lost meanwhile rolls back, and the worker says so', async () => {
    const began = signal()
    const go = signal()
    const path = file()
    const post = defineJob({
      name: 'post',
      transactional: true,
      run: async (_: null, { tx }) => {
        began.give()
        await go.promise
        add(await tx<Database.Database>(), 1)
        return 'late'
      },
    })
    const mill = new TestMill({ jobs: [post], store: (clock) => new SqliteStore({ file: path, clock }) })
    const db = new Database(path)
    db.exec('CREATE TABLE entry (amount INTEGER)')
    const other = new SqliteStore({ file: path, clock: mill.clock })
    opened.push(db, other, mill)
    await other.open()
    const lost: string[] = []
    mill.on('lost', ({ id }) => lost.push(id))
    const job = await mill.enqueue(post, null)
    const worker = mill.worker({ handleSignals: false })
    await worker.start()
    await began.promise
    mill.clock.jump(3600_000)
    const { orphans } = await other.sweep({ limit: 10, keep: { completed: 10, dead: 10 } })
    const settlements = orphans.map(({ id, token }) => ({
      id,
      token,
      outcome: outcomeOf({ to: 'scheduled', delay: 3600_000, crashed: true }),
      inserts: undefined,
    }))
    const rescued = await other.exchange({ worker: worker.id, settlements, claim: undefined, rescue: true })
    expect(rescued.settled).toEqual(['applied'])
    go.give()
    await mill.clock.advance(10)
    expect(lost).toEqual([job.id])
    expect([await job.state(), db.prepare('SELECT count(*) FROM entry').pluck().get()]).toEqual([
      'scheduled',
      0,
    ])
  })

  test('one whose time is over while it waits for its turn leaves the turn to the next', async () => {
    const began = signal()
    const go = signal()
    const path = file()
    const seen: string[] = []
    const post = defineJob({
      name: 'post',
      transactional: true,
      maxAttempts: 1,
      run: async (name: string, { tx }) => {
        const db = await tx<Database.Database>()
        seen.push(name)
        db.prepare('SELECT 1').get()
        if (name !== 'first') return
        began.give()
        await go.promise
      },
    })
    const store = (clock: VirtualClock) => new SqliteStore({ file: path, clock, busyTimeout: '20s' })
    const mill = new TestMill({ jobs: [post], store })
    opened.push(mill)
    const jobs = [
      await mill.enqueue(post, 'first', { timeout: '1h' }),
      await mill.enqueue(post, 'second', { timeout: '1s' }),
      await mill.enqueue(post, 'third', { timeout: '1h' }),
    ]
    await mill.worker({ handleSignals: false, abandonAfter: '1s' }).start()
    await began.promise
    await mill.clock.advance(2_500)
    go.give()
    await jobs[2]?.result()
    await expect(jobs[1]?.result()).rejects.toThrow('longer than its timeout')
    expect(await jobs[0]?.state()).toBe('completed')
    expect(seen).toEqual(['first', 'third'])
  })

  test('one that is open for half of the worker’s lease is rolled back: the lease must be renewed', async () => {
    const began = signal()
    const { mill, post, entries } = ledger(
      async (db) => {
        add(db, 1)
        began.give()
        await new Promise(() => {})
      },
      { timeout: '1h' },
    )
    const job = await mill.enqueue(post, null)
    await mill.worker({ handleSignals: false, lease: '20s', abandonAfter: 0 }).start()
    await began.promise
    await mill.clock.advance(9_990)
    expect(await job.state()).toBe('running')
    await mill.clock.advance(20)
    await expect(job.result()).rejects.toThrow('was open for 10000 ms, half of its worker')
    expect(entries()).toEqual([])
  })

  test('other writes of the process come between two transactions', async () => {
    const store = new SqliteStore({ file: file(), synchronous: 'normal' })
    opened.push(store)
    await store.open()
    const order: string[] = []
    const first = await store.begin()
    const written = store.configure({ queue: 'x', paused: true }).then(() => order.push('written'))
    const second = store.begin().then((transaction) => {
      order.push('second')
      return transaction.rollback()
    })
    await first.rollback()
    await Promise.all([written, second])
    expect(order).toEqual(['written', 'second'])
  })

  test('a handler that never asks for its transaction settles as any other', async () => {
    const path = file()
    const quiet = defineJob({ name: 'quiet', transactional: true, run: (n: number) => n * 2 })
    const mill = new Millrace({ store: `sqlite:${path}`, jobs: [quiet] })
    opened.push(mill)
    await mill.worker({ handleSignals: false }).start()
    expect(await (await mill.enqueue(quiet, 4)).result({ timeout: '5s' })).toBe(8)
  })

  test('many at a time take turns, beside jobs and callers that write meanwhile', async () => {
    const path = file()
    const db = new Database(path)
    db.exec('CREATE TABLE entry (amount INTEGER UNIQUE)')
    const post = defineJob({
      name: 'post',
      transactional: true,
      run: async (n: number, { tx, enqueue }) => {
        const own = await tx<Database.Database>()
        own.prepare('INSERT INTO entry VALUES (?)').run(n)
        await new Promise((resolve) => setImmediate(resolve))
        await enqueue(plain, n)
        return n
      },
    })
    const plain = defineJob({ name: 'plain', run: (n: number) => n })
    const mill = new Millrace({
      store: new SqliteStore({ file: path, synchronous: 'normal' }),
      jobs: [post, plain],
    })
    opened.push(db, mill)
    await mill.open()
    await mill.worker({ handleSignals: false, concurrency: 20 }).start()
    const numbers = Array.from({ length: 100 }, (_, n) => n)
    const handles = await mill.enqueueMany(post, numbers)
    await mill.enqueueMany(plain, numbers)
    expect(await Promise.all(handles.map((handle) => handle.result({ timeout: '20s' })))).toEqual(numbers)
    await mill.queue('default').drain()
    expect(db.prepare('SELECT count(*) FROM entry').pluck().get()).toBe(100)
    const { states, totals } = await mill.stats()
    expect([states.running, states.pending, totals.completed, totals.failed]).toEqual([0, 0, 300, 0])
  })

  test('a handler that ends the transaction by itself fails with a word', async () => {
    const { mill, post } = ledger((db) => db.exec('COMMIT') && 'done')
    const job = await mill.enqueue(post, null)
    await mill.drain()
    const { failure } = (await job.get()) ?? {}
    expect([failure?.code, failure?.message]).toEqual([
      'STORE_REFUSED',
      expect.stringContaining('leave COMMIT and ROLLBACK to the end'),
    ])
  })

  test('one that closes its connection, or leaves a statement half read, holds up no other', async () => {
    let call = 0
    const { mill, post, entries } = ledger((db) => {
      add(db, ++call)
      if (call === 1) db.close()
      if (call !== 2) return
      const rows = db.prepare('SELECT amount FROM entry').iterate()
      rows.next()
      setTimeout(() => rows.return?.(), 50) // what a handler that was left alone may do at last
    })
    const jobs = await mill.enqueueMany(post, [null, null, null])
    await mill.drain()
    const states = await Promise.all(jobs.map((job) => job.state()))
    expect([states, entries()]).toEqual([['dead', 'dead', 'completed'], [3]])
  })

  test('steps after it are refused at once with the way out', async () => {
    const refused: unknown[] = []
    const note = (error: { message: string }) => void refused.push(error.message)
    const { mill, post, entries } = ledger(async (db, { step }) => {
      add(db, 1)
      await step('mail', () => refused.push('mailed')).catch(note)
      await step.sleep('1h').catch(note)
      await step.transaction('more', () => refused.push('wrote')).catch(note)
    })
    const job = await mill.enqueue(post, null)
    await mill.drain()
    expect(await job.state()).toBe('completed')
    expect(refused).toEqual(
      ['mail', 'sleep', 'more'].map((name) => expect.stringContaining(`step '${name}' was taken after tx()`)),
    )
    expect(entries()).toEqual([1])
  })

  test('it does not begin while steps run, which could not be written', async () => {
    const refused: unknown[] = []
    const eager = defineJob({
      name: 'eager',
      transactional: true,
      maxAttempts: 1,
      run: async (_: null, { step, tx }) => {
        const slow = step('slow', () => 1)
        await tx().catch((error: Error) => refused.push(error.message))
        const first = await slow
        // Who wins it is to be kept.
        const race = step.race([() => new Promise((resolve) => setTimeout(resolve, 5, 2))])
        await step('other', () => 3)
        await tx().catch((error: Error) => refused.push(error.message))
        return [first, await race, typeof (await tx())]
      },
    })
    const mill = new TestMill({
      jobs: [eager],
      store: (clock) => new SqliteStore({ file: file(), clock, synchronous: 'normal' }),
    })
    opened.push(mill)
    const job = await mill.enqueue(eager, null)
    await mill.drain()
    expect(await job.result()).toEqual([1, 2, 'object'])
    const asked = expect.stringContaining("a 'eager' job asked for tx() while steps of it run")
    expect(refused).toEqual([asked, asked])
  })

  test('nested transactions of better-sqlite3 work', async () => {
    const { mill, post, entries } = ledger((db) => {
      db.transaction(() => add(db, 1))()
      expect(() =>
        db.transaction(() => {
          add(db, 2)
          throw new Error('only this')
        })(),
      ).toThrow('only this')
    })
    await mill.enqueue(post, null)
    await mill.drain()
    expect(entries()).toEqual([1])
  })

  test('tx is for transactional definitions, which are functions of single jobs', async () => {
    const path = file()
    const plain = defineJob({ name: 'plain', maxAttempts: 1, run: (_: null, { tx }) => tx() })
    const mill = new TestMill({ jobs: [plain], store: (clock) => new SqliteStore({ file: path, clock }) })
    opened.push(mill)
    const job = await mill.enqueue(plain, null)
    await mill.drain()
    expect((await job.get())?.failure?.message).toContain('set transactional: true')
    const run = new URL('file:///x.js')
    expect(() => defineJob({ name: 'x', transactional: true, run })).toThrow(
      'no transaction reaches into a sandbox',
    )
    expect(() => defineJob({ name: 'x', transactional: 1 as never, run: () => {} })).toThrow('true or false')
    expect(() => defineBatchJob({ name: 'x', transactional: true, run: () => {} } as never)).toThrow(
      "no option 'transactional'",
    )
  })

  test('a store in memory has none', async () => {
    const store = new SqliteStore({ file: ':memory:' })
    opened.push(store)
    await store.open()
    await expect(store.begin()).rejects.toMatchObject({ code: 'STORE_REFUSED', field: 'file' })
  })

  test('who waits too long for its turn is told so', async () => {
    const store = new SqliteStore({ file: file(), busyTimeout: 30 })
    opened.push(store)
    await store.open()
    const first = await store.begin()
    await expect(store.begin()).rejects.toMatchObject({ code: 'STORE_BUSY', field: 'busyTimeout' })
    await first.rollback()
    await (await store.begin()).rollback()
  })
})
