import type { Database } from '../../../databases/sqlite/connection.js'
import type { SnapshotRecord } from '../../log.js'
import { prepare } from './prepare.js'
import { snapshot as sql } from './sql.generated.js'

export function makeSnapshots(db: Database) {
  const newest = prepare<[string, string], SnapshotRecord>(db, sql.newest)
  const keepOne = prepare<[string, string, number, number, string]>(db, sql.keep)

  return { get: (stream: string, name: string) => newest.get(stream, name), keep }

  function keep({ stream, name, schema, version, state }: SnapshotRecord): void {
    keepOne.run(stream, name, schema, version, state)
  }
}
