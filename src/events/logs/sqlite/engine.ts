import type { Clock } from '../../../core/clock.js'
import type { Connection, ConnectionOptions, Database } from '../../../databases/sqlite/connection.js'
import { Transactions } from '../../../databases/sqlite/transactions.js'
import type { Append, AppendResult } from '../../log.js'
import { makeAll } from './all.js'
import { makeAppend } from './append.js'
import { makeProjections } from './projections.js'
import { makeRetention } from './retention.js'
import { makeSnapshots } from './snapshot.js'
import { makeStream } from './stream.js'
import { addedAny, WakeUps } from './wake-ups.js'

/** What is done in transactions of others as well. */
export interface Verbs {
  readonly append: (appends: readonly Append[]) => AppendResult[]
  readonly projections: ReturnType<typeof makeProjections>
}

interface Desk extends Verbs {
  readonly db: Database
  /** Whether it has appended anything since the last time. */
  takeAppended(): boolean
}

export interface Engine extends Verbs, ReturnType<typeof makeAll> {
  readonly connection: Connection
  readonly wakeUps: WakeUps
  readonly transactions: Transactions<Desk>
  readonly stream: ReturnType<typeof makeStream>
  readonly snapshots: ReturnType<typeof makeSnapshots>
  readonly retention: ReturnType<typeof makeRetention>
}

/** The verbs over one connection, each prepared once. */
export function makeEngine(connection: Connection, clock: Clock, options: ConnectionOptions): Engine {
  const { db } = connection
  return {
    connection,
    wakeUps: new WakeUps(connection),
    transactions: new Transactions(
      options,
      (beside) => makeDesk(beside, clock),
      () => connection.waitedFor(),
    ),
    ...makeVerbs(db, clock),
    ...makeAll(db),
    stream: makeStream(db),
    snapshots: makeSnapshots(db),
    retention: makeRetention(db, clock),
  }
}

export function makeVerbs(db: Database, clock: Clock): Verbs {
  return { append: makeAppend(db, clock), projections: makeProjections(db, clock) }
}

/** The same for a transaction of the log's own, which tells of what it has added when it has committed. */
function makeDesk(db: Database, clock: Clock): Desk {
  const { append, projections } = makeVerbs(db, clock)
  let hasAppended = false
  return { db, append: appendHere, projections, takeAppended }

  function appendHere(appends: readonly Append[]): AppendResult[] {
    const results = append(appends)
    hasAppended ||= addedAny(results)
    return results
  }

  function takeAppended(): boolean {
    const had = hasAppended
    hasAppended = false
    return had
  }
}
