/** Steps that commit together with what their functions write. */
import type BetterSqlite3 from 'better-sqlite3'
import Database from 'better-sqlite3'
import { type AnyJob, defineJob, Millrace } from 'millrace'
import { SqliteStore } from 'millrace/sqlite'
import { afterEach, describe, expect, test } from 'vitest'
import { file } from '../engine/mill.js'

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

// The engine's transactions are built beside this; where they are missing there is nothing to test.
describe.skipIf(!(await hasTransactions()))('step.transaction', () => {
  const quick = { backoff: { type: 'fixed', initialDelay: 10, jitter: 'none' } } as const

  test('commits with the step, once, and rolls back with what it throws', async () => {
    const place = shop()
    const job = defineJob({
      name: 'pay',
      ...quick,
      run: async (amount: number, { step, attempt }) => {
        const id = await step.transaction('pay', (tx: BetterSqlite3.Database, { key }) => {
          const { lastInsertRowid } = tx.prepare('INSERT INTO payment VALUES (?, ?)').run(key, amount)
          if (attempt === 1) throw new Error('after the insert')
          return Number(lastInsertRowid)
        })
        if (attempt === 2) throw new Error('after the step')
        return id
      },
    })
    const mill = await started(place, job)
    const handle = await mill.enqueue(job, 5, { id: 'p' })
    expect(await handle.result({ timeout: '10s' })).toBe(1)
    expect(payments(place)).toEqual([{ key: 'p:pay', amount: 5 }])
    expect(await handle.get()).toMatchObject({ attempt: 3 })
    expect((await handle.steps()).map(({ name, value }) => [name, value])).toEqual([['pay', 1]])
  })

  test('steps beside it are written when it has ended', async () => {
    const place = shop()
    const job = defineJob({
      name: 'beside',
      run: (_: null, { step }) =>
        step.all([
          () =>
            step.transaction('tx', async (tx: BetterSqlite3.Database) => {
              tx.prepare('INSERT INTO payment VALUES (?, ?)').run('a', 1)
              await new Promise((resolve) => setTimeout(resolve, 50))
            }),
          () => step('plain', () => 7),
        ]),
    })
    const mill = await started(place, job)
    const handle = await mill.enqueue(job, null)
    expect(await handle.result({ timeout: '10s' })).toEqual([undefined, 7])
    expect(payments(place)).toHaveLength(1)
  })

  test('a run that is told to stop has its transaction rolled back, however long its function goes on', async () => {
    const place = shop()
    const job = defineJob({
      name: 'hangs',
      maxAttempts: 1,
      timeout: '100ms',
      run: (_: null, { step }) =>
        step.transaction('tx', (tx: BetterSqlite3.Database) => {
          tx.prepare('INSERT INTO payment VALUES (?, ?)').run('a', 1)
          return new Promise(() => {})
        }),
    })
    const mill = await started(place, job)
    const handle = await mill.enqueue(job, null)
    await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject({ code: 'JOB_DEAD' })
    expect((await handle.get())?.failure).toMatchObject({ code: 'JOB_TIMEOUT' })
    expect(payments(place)).toEqual([])
    expect(await handle.steps()).toEqual([])
  })
})

async function hasTransactions(): Promise<boolean> {
  const store = new SqliteStore({ file: file() })
  await store.open()
  try {
    const transaction = await store.begin()
    await transaction.rollback()
    return true
  } catch {
    return false
  } finally {
    await store.close()
  }
}

function shop(): string {
  const place = file()
  const db = new Database(place)
  db.exec('CREATE TABLE payment (key TEXT PRIMARY KEY, amount INTEGER)')
  db.close()
  return place
}

function payments(place: string): unknown[] {
  const db = new Database(place, { readonly: true })
  try {
    return db.prepare('SELECT key, amount FROM payment').all()
  } finally {
    db.close()
  }
}

async function started(place: string, job: AnyJob): Promise<Millrace> {
  const mill = new Millrace({ store: `sqlite:${place}`, jobs: [job] })
  cleanUps.push(() => mill.close({ grace: 0 }))
  await mill.worker({ handleSignals: false }).start()
  return mill
}
