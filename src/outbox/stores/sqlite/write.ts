import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import type { NewRow } from '../../store.js'
import { kindNumber } from './kinds.js'
import { write as sql } from './sql.generated.js'

export function makeWrite(db: Database, clock: Clock): (row: NewRow) => void {
  const insert = db.prepare(sql.row)
  return ({ kind, key = null, topic = null, headers = null, ...rest }) => {
    insert.run({ ...rest, kind: kindNumber[kind], key, topic, headers, at: clock.now() })
  }
}
