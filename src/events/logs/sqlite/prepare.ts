import type BetterSqlite3 from 'better-sqlite3'
import type { Database } from '../../../databases/sqlite/connection.js'

/** Numbers come as numbers, whatever the caller wants of its own connection. */
export function prepare<Values extends unknown[] | object = unknown[], Row = unknown>(
  db: Database,
  sql: string,
): BetterSqlite3.Statement<Values extends unknown[] ? Values : [Values], Row> {
  const statement = db.prepare<Values, Row>(sql)
  statement.safeIntegers(false)
  return statement as never
}

/** Several statements see the same: what others write comes before or after all of them. */
export function atOneLook<Args extends unknown[], T>(
  db: Database,
  work: (...args: Args) => T,
): (...args: Args) => T {
  return db.transaction(work)
}
