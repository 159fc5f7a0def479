/** Read models of the engine under test: tables where there are tables, and maps that commit with the memory log's transactions. */
import type Database from 'better-sqlite3'
import type { EventLog, TableContext } from 'millrace/events'
import type pg from 'pg'
import { onTestFinished } from 'vitest'
import { MemoryTransaction } from '../../src/events/logs/memory/transaction.js'
import { engine } from './logs.js'

/** Sums by account, and how many events made each. */
export interface Sums {
  create(context: TableContext): unknown
  drop(context: TableContext): unknown
  add(tx: unknown, table: string, account: string, amount: number): unknown
  /** `account: sum/events`, by account; undefined when there is no such table. */
  read(table: string): Promise<string[] | undefined>
}

let names = 0

/** A name that no other test has: tables of PostgreSQL may stand where all of them can see them. */
export function freshName(stem: string): string {
  return `${stem}-${process.pid}-${names++}`
}

export function sumsIn(log: EventLog, name: string): Sums {
  if (engine === 'memory') return inMemory()
  const sums = engine === 'sqlite' ? inSqlite(log) : inPostgres(log)
  if (engine === 'postgres')
    onTestFinished(async () => {
      for (let generation = 1; generation < 10; generation++)
        await within(log, (tx) =>
          sums.drop({
            tx: <Tx>() => tx as Tx,
            table: `${name.replaceAll('-', '_')}_${generation}`,
            generation,
          }),
        )
    })
  return sums
}

function inMemory(): Sums {
  const tables = new Map<string, Map<string, [sum: number, count: number]>>()
  const later = (tx: unknown, effect: () => void) => (tx as MemoryTransaction).add(effect)
  return {
    create: ({ tx, table }) =>
      later(tx(), () => {
        if (tables.has(table)) throw new Error(`table ${table} is there already`)
        tables.set(table, new Map())
      }),
    drop: ({ tx, table }) => later(tx(), () => void tables.delete(table)),
    add: (tx, table, account, amount) => {
      if (!(tx instanceof MemoryTransaction)) throw new Error('no transaction')
      if (!tables.has(table)) throw new Error(`there is no table ${table}`)
      later(tx, () => {
        const [sum, count] = tables.get(table)?.get(account) ?? [0, 0]
        tables.get(table)?.set(account, [sum + amount, count + 1])
      })
    },
    read: async (table) =>
      tables.has(table)
        ? [...(tables.get(table) ?? [])].map(([account, [sum, n]]) => `${account}: ${sum}/${n}`).sort()
        : undefined,
  }
}

const columns = 'account text PRIMARY KEY, sum integer NOT NULL, events integer NOT NULL'
const upsert = (table: string, values: string) =>
  `INSERT INTO ${table} (account, sum, events) VALUES (${values}, 1)
   ON CONFLICT (account) DO UPDATE SET sum = ${table}.sum + excluded.sum, events = ${table}.events + 1`
const select = (table: string) => `SELECT account, sum, events FROM ${table}`

function inSqlite(log: EventLog): Sums {
  return {
    create: ({ tx, table }) => tx<Database.Database>().exec(`CREATE TABLE ${table} (${columns})`),
    drop: ({ tx, table }) => tx<Database.Database>().exec(`DROP TABLE IF EXISTS ${table}`),
    add: (tx, table, account, amount) =>
      (tx as Database.Database).prepare(upsert(table, '?, ?')).run(account, amount),
    read: (table) =>
      within(log, (tx) => {
        const db = tx as Database.Database
        const isThere = db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined
        return isThere ? shown(db.prepare(select(table)).all()) : undefined
      }),
  }
}

function inPostgres(log: EventLog): Sums {
  return {
    create: ({ tx, table }) => tx<pg.PoolClient>().query(`CREATE TABLE ${table} (${columns})`),
    drop: ({ tx, table }) => tx<pg.PoolClient>().query(`DROP TABLE IF EXISTS ${table}`),
    add: (tx, table, account, amount) =>
      (tx as pg.PoolClient).query(upsert(table, '$1, $2'), [account, amount]),
    read: (table) =>
      within(log, async (tx) => {
        const client = tx as pg.PoolClient
        const { rows } = await client.query('SELECT to_regclass($1) AS found', [table])
        if (rows[0].found === null) return undefined
        return shown((await client.query(select(table))).rows)
      }),
  }
}

async function within<T>(log: EventLog, work: (tx: unknown) => T | Promise<T>): Promise<T> {
  const transaction = await log.begin()
  try {
    const result = await work(transaction.tx)
    await transaction.commit()
    return result
  } catch (error) {
    await transaction.rollback()
    throw error
  }
}

function shown(rows: unknown[]): string[] {
  return (rows as { account: string; sum: number; events: number }[])
    .map(({ account, sum, events }) => `${account}: ${sum}/${events}`)
    .sort()
}
