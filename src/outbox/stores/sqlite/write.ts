import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import type { NewRow } from '../../store.js'
import { kindNumber } from './kinds.js'
import { write as sql } from './sql.generated.js'

export function makeWrite(db: Database, clock: Clock): (row: NewRow) => void {
  const insert = db.prepare(sql.row)
  return ({ kind, slot, id, key = null, topic = null, body, headers = null }) => {
    insert.run(kindNumber[kind], slot, id, key, topic, body, headers, clock.now())
  }
}
