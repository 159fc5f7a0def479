import { realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { MillraceError } from '../../core/errors.js'
import type { Database } from './connection.js'

/** A caller's connection that is in a transaction of its own, on this file; `what`: such as 'the jobs are'. */
export function callersDatabase(tx: unknown, file: string, what: string): Database {
  const db = tx as Database
  if (typeof db?.prepare !== 'function' || db.inTransaction !== true) {
    throw new MillraceError(
      'STORE_REFUSED',
      'tx must be a better-sqlite3 database inside a transaction of its own',
      { field: 'tx' },
    )
  }
  if (placeOf(db.name) !== placeOf(file)) {
    throw new MillraceError('STORE_REFUSED', `tx is a connection to '${db.name}', but ${what} in '${file}'`, {
      field: 'tx',
    })
  }
  return db
}

/** All or nothing, whatever the caller then does with its transaction. */
export function atomically<T>(db: Database, work: () => T): T {
  db.exec('SAVEPOINT millrace')
  try {
    const result = work()
    db.exec('RELEASE millrace')
    return result
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK TO millrace; RELEASE millrace')
    throw error
  }
}

/** The same for all names of a file. */
function placeOf(name: string): string {
  try {
    return realpathSync(name)
  } catch {
    return resolve(name) // it is in memory
  }
}
