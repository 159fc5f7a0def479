import type { Database } from '../../../databases/sqlite/connection.js'
import type { SnapshotRecord } from '../../log.js'
import { prepare } from './prepare.js'
import { snapshot as sql } from './sql.generated.js'

export function makeSnapshots(db: Database) {
  const newest = prepare<[string, string], SnapshotRecord>(db, sql.newest)
  const keepOne = prepare<[SnapshotRecord]>(db, sql.keep)

  return { get: (stream: string, name: string) => newest.get(stream, name), keep }

  function keep(snapshot: SnapshotRecord): void {
    keepOne.run(snapshot)
  }
}
