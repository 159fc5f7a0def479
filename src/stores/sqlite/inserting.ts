import type { Clock } from '../../core/clock.js'
import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { BreakerPhase } from '../../core/traffic/breaker.js'
import type { Database } from './connection.js'
import { makeFamilies } from './family.js'
import { makeInsert } from './insert.js'
import { makePending } from './pending.js'
import { makeForgetDeath } from './settle.js'
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
  const insert = makeInsert(tables, traffic, places, pending, families, signals)
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

export interface ToldOfInserts {
  ready(queue: string): void
  due(delay: number): void
  breaker(job: string, phase: BreakerPhase): void
  quarantine(job: string, on: boolean): void
}
