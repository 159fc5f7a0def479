import type { Clock } from '../../core/clock.js'
import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import { superseded } from '../../core/traffic/dedupe.js'
import type { Database } from '../../databases/sqlite/connection.js'
import { type CancelParts, makeCancel } from './cancel.js'
import { makeDoomMark } from './doom.js'
import { makeFamilies } from './family.js'
import { makeInsert } from './insert.js'
import { makePending } from './pending.js'
import { type JobRow, makeRead } from './read.js'
import { makeForgetDeath, makeRemove } from './settle.js'
import { makeSteps } from './steps.js'
import { Tables } from './tables.js'
import { makeTraffic } from './traffic.js'
import { makeWaiting } from './waiting.js'

/** What inserting over a connection needs. `insertAtOnce` leaves nothing to be written at the end. */
export function makeInserting(db: Database, clock: Clock, signals: ToldOfInserts) {
  const tables = new Tables(db, clock)
  const { traffic, places } = makeTraffic(tables, signals)
  const pending = makePending(tables, traffic, places, signals)
  const steps = makeSteps(tables)
  const waiting = makeWaiting(tables, steps, pending)
  const families = makeFamilies(tables, pending, waiting, makeForgetDeath(tables))
  const supersede = makeSupersede(
    tables,
    { pending, waiting, families },
    makeRead(tables, families, steps).row,
  )
  const insert = makeInsert(tables, traffic, places, pending, families, signals, supersede)
  return { tables, traffic, places, pending, steps, waiting, families, insert, insertAtOnce }

  function insertAtOnce(jobs: readonly NewJob[]): InsertResult[] {
    try {
      const results = insert(jobs)
      places.write()
      tables.write()
      return results
    } finally {
      // The caller may roll back, so nothing learned here is kept.
      places.forget()
      tables.forget()
    }
  }
}

/** Cancels a job that waits, for a newer one. Who waits for its end hears of it when they look. */
function makeSupersede(
  tables: Tables,
  parts: Pick<CancelParts, 'pending' | 'waiting' | 'families'>,
  rowOf: (id: string) => JobRow | undefined,
): (id: string) => void {
  const doom = makeDoomMark(tables)
  const signals = { cancel() {}, changed() {} }
  const cancel = makeCancel(tables, { ...parts, doom, signals, remove: makeRemove(tables) })
  return (id) => {
    const row = rowOf(id)
    if (row !== undefined) cancel(row, superseded, 0)
  }
}

export interface ToldOfInserts {
  ready(queue: string): void
  due(delay: number): void
  breaker(job: string, phase: BreakerPhase): void
  quarantine(job: string, on: boolean): void
}
