import Database from 'better-sqlite3'
import { sqliteLog, type TableContext } from 'millrace/events'
import type { SqlitePlace } from '../place.js'
import { type Book, digests, type KeptEvent, type ReadModels, type Sighting, type Total } from './book.js'

export function sqliteBook({ file }: SqlitePlace): Book {
  const db = new Database(file, { timeout: 20_000 })
  db.pragma('journal_mode = wal')
  return {
    log: () => sqliteLog({ file }),
    async setUp() {
      db.exec(`CREATE TABLE seen (n INTEGER PRIMARY KEY AUTOINCREMENT, reader TEXT NOT NULL, generation INTEGER NOT NULL,
        position INTEGER NOT NULL, key TEXT NOT NULL) STRICT`)
    },
    async begin() {
      db.exec('BEGIN IMMEDIATE')
      return {
        tx: db,
        async commit() {
          db.exec('COMMIT')
        },
        async rollback() {
          if (db.inTransaction) db.exec('ROLLBACK')
        },
      }
    },
    models,
    count: async () => db.prepare<[], number>('SELECT count(*) FROM millrace_event').pluck().get() as number,
    async events() {
      const rows = db
        .prepare<[], Omit<KeptEvent, 'key' | 'amount'> & { data: string }>(
          'SELECT position, stream, version, type, data FROM millrace_event ORDER BY position',
        )
        .all()
      return rows.map(({ data, ...event }) => ({ ...event, ...JSON.parse(data) }))
    },
    sightings: async () =>
      db.prepare<[], Sighting>('SELECT reader, generation, position, key FROM seen ORDER BY n').all(),
    totals: async (table) =>
      db.prepare<[], Total>(`SELECT stream, count, sum, digest, version FROM ${table}`).all(),
    async tables() {
      const names = db
        .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .pluck()
        .all()
      return names.filter((name) => /_\d+$/.test(name) && !name.startsWith('millrace_'))
    },
    async close() {
      db.close()
    },
  }
}

const models: ReadModels = {
  create: (context) =>
    databaseOf(context).exec(`CREATE TABLE ${context.table} (stream TEXT PRIMARY KEY, count INTEGER NOT NULL,
      sum INTEGER NOT NULL, digest INTEGER NOT NULL, version INTEGER NOT NULL) STRICT`),
  drop: (context) => databaseOf(context).exec(`DROP TABLE IF EXISTS ${context.table}`),
  note(context, reader, { position, stream, version, data }) {
    const db = databaseOf(context)
    db.prepare('INSERT INTO seen (reader, generation, position, key) VALUES (?, ?, ?, ?)').run(
      reader,
      context.generation,
      position,
      data.key,
    )
    db.prepare(noteIn(context.table)).run({ stream, amount: data.amount, version })
  },
}

function noteIn(table: string): string {
  return `INSERT INTO ${table} (stream, count, sum, digest, version)
    VALUES (@stream, 1, @amount, @amount % ${digests.modulus}, @version)
    ON CONFLICT (stream) DO UPDATE SET count = count + 1, sum = sum + excluded.sum,
      digest = (digest * ${digests.factor} + excluded.sum) % ${digests.modulus}, version = excluded.version`
}

function databaseOf({ tx }: Pick<TableContext, 'tx'>): Database.Database {
  return tx<Database.Database>()
}
