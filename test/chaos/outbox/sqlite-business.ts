import Database from 'better-sqlite3'
import { sqliteOutbox } from 'millrace/outbox'
import type { Business, BusinessTransaction } from './business.js'
import type { Order } from './orders.js'

export function sqliteBusiness(file: string): Business {
  const db = new Database(file, { timeout: 20_000 })
  db.pragma('journal_mode = wal')
  return {
    store: () => sqliteOutbox({ file }),
    async setUp() {
      db.exec(`CREATE TABLE numbers (key TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT;
        CREATE TABLE orders (id TEXT PRIMARY KEY, key TEXT, n INTEGER NOT NULL) STRICT`)
    },
    async begin() {
      db.exec('BEGIN IMMEDIATE')
      return transaction(db)
    },
    async orders() {
      const rows = db.prepare<[], StoredOrder>('SELECT id, key, n FROM orders').all()
      return rows.map(({ key, ...row }) => ({ ...row, key: key ?? undefined }))
    },
    async close() {
      db.close()
    },
  }
}

type StoredOrder = Omit<Order, 'key'> & { readonly key: string | null }

function transaction(db: Database.Database): BusinessTransaction {
  const next = db
    .prepare<[string], number>(
      'INSERT INTO numbers VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1 RETURNING n',
    )
    .pluck()
  const insert = db.prepare('INSERT INTO orders VALUES (?, ?, ?)')
  return {
    tx: db,
    async order(id, key) {
      const n = key === undefined ? 0 : (next.get(key) as number)
      insert.run(id, key ?? null, n)
      return { id, key, n }
    },
    async undone(work) {
      db.exec('SAVEPOINT doubt')
      await work()
      db.exec('ROLLBACK TO doubt; RELEASE doubt')
    },
    async commit() {
      db.exec('COMMIT')
    },
    async rollback() {
      if (db.inTransaction) db.exec('ROLLBACK')
    },
  }
}
