import { MillraceError } from '../../core/errors.js'
import type { Database } from './connection.js'

/** What tables a file should have. */
export interface SchemaPlan {
  /** Has the version; made by the first migration. `user_version` belongs to the caller, whose tables may share the file. */
  readonly table: string
  /** In order, without gaps. */
  readonly migrations: readonly { readonly version: number; readonly sql: string }[]
}

/** Brings the file to this version's schema, forward only. Safe when many processes start at once. */
export function migrate(db: Database, file: string, { table, migrations }: SchemaPlan): void {
  const latest = migrations.at(-1)?.version ?? 0
  if (version(db, table) === latest) return
  db.exec('BEGIN IMMEDIATE')
  try {
    // Read again under the lock: another process may have migrated in between.
    const current = version(db, table)
    if (current > latest) throw tooNew(file, current, latest)
    for (const migration of migrations) {
      if (migration.version > current) db.exec(migration.sql)
    }
    db.prepare(`UPDATE ${table} SET version = ?`).run(latest)
    db.exec('COMMIT')
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK')
    throw error
  }
}

function version(db: Database, table: string): number {
  const exists = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(table)
  return exists === undefined ? 0 : (db.prepare(`SELECT version FROM ${table}`).pluck().get() as number)
}

function tooNew(file: string, current: number, latest: number): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `'${file}' has schema ${current}, made by a newer Millrace; this one knows up to ${latest}. Upgrade millrace in this process`,
    { field: 'schema', value: current, limit: latest },
  )
}
