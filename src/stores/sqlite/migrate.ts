import { MillraceError } from '../../core/errors.js'
import type { Database } from './connection.js'
import { migrations } from './sql.generated.js'

/** Brings the file to this version's schema, forward only. Safe when many processes start at once. */
export function migrate(db: Database, file: string): void {
  const latest = migrations.at(-1)?.version ?? 0
  if (version(db) === latest) return
  db.exec('BEGIN IMMEDIATE')
  try {
    // Read again under the lock: another process may have migrated in between.
    const current = version(db)
    if (current > latest) throw tooNew(file, current, latest)
    for (const migration of migrations) {
      if (migration.version > current) db.exec(migration.sql)
    }
    db.prepare('UPDATE millrace_schema SET version = ?').run(latest)
    db.exec('COMMIT')
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK')
    throw error
  }
}

/** Kept in a table of its own: `user_version` belongs to the caller, whose tables may share the file. */
function version(db: Database): number {
  const table = db
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'millrace_schema'")
    .get()
  return table === undefined ? 0 : (db.prepare('SELECT version FROM millrace_schema').pluck().get() as number)
}

function tooNew(file: string, current: number, latest: number): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `'${file}' has schema ${current}, made by a newer Millrace; this one knows up to ${latest}. Upgrade millrace in this process`,
    { field: 'schema', value: current, limit: latest },
  )
}
