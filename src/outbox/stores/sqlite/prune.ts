import type { Clock } from '../../../core/clock.js'
import type { Database } from '../../../databases/sqlite/connection.js'
import type { PruneRequest } from '../../store.js'
import { prune as sql } from './sql.generated.js'

export function makePrune(db: Database, clock: Clock): (request: PruneRequest) => boolean {
  const sent = db.prepare(sql.sent)
  const asides = db.prepare(sql.aside)
  const receipts = db.prepare(sql.received)
  return ({ history, aside, received, limit }) => {
    const now = clock.now()
    const gone = [
      history === undefined ? 0 : sent.run(now - history, limit).changes,
      aside === undefined ? 0 : asides.run(now - aside, limit).changes,
      received === undefined ? 0 : receipts.run(received.consumer, now - received.keep, limit).changes,
    ]
    return gone.includes(limit)
  }
}
