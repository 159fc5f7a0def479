import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import { receive as sql } from './sql.generated.js'

export function makeReceive(db: Database, clock: Clock): (consumer: string, id: string) => boolean {
  const note = db.prepare(sql.note)
  return (consumer, id) => note.run(consumer, id, clock.now()).changes === 1
}
