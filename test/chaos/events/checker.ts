/**
 * The judge of an event store: a pure function from what the processes wrote down and what the database has in the end to
 * a verdict. The log is judged by appends.ts, those who read it by readers.ts, what workers may write by leases.ts.
 */
import type { Violation } from '../checker.js'
import { checkAppends } from './appends.js'
import { type Accuse, accuseOf, type EventsEvidence, eventsOf } from './evidence.js'
import { checkLeases } from './leases.js'
import { checkFollowers, checkJobs, checkModels, checkProjections } from './readers.js'

export interface EventsVerdict {
  /** Events that are in the log, and appends among them of which nobody heard that they are. */
  readonly kept: number
  readonly doubtful: number
  /** Events that were acknowledged and are gone, or that somebody never saw. */
  readonly lost: number
  /** Events that somebody saw again who must not. */
  readonly again: number
  readonly staleAttempts: number
  readonly refusedStale: number
  readonly recoveries: readonly number[]
  readonly violations: readonly Violation[]
}

export function checkEvents(evidence: EventsEvidence): EventsVerdict {
  const violations: Violation[] = []
  const accuse: Accuse = (invariant, text) => violations.push({ invariant, text })
  const appends = checkAppends(evidence, accuse)
  const seen = [
    ...checkFollowers(evidence, accuse),
    ...checkProjections(evidence, accuse),
    checkJobs(evidence, accuse),
  ]
  checkModels(evidence, accuse)
  const leases = checkLeases(evidence, accuse)
  checkTables(evidence, accuse)
  checkDrained(evidence, accuse)
  checkComplaints(evidence, accuse)
  return {
    ...leases,
    kept: evidence.kept.length,
    doubtful: appends.doubtful,
    lost: seen.reduce((sum, { missing }) => sum + missing, appends.lost),
    again: seen.reduce((sum, { again }) => sum + again, 0),
    violations,
  }
}

/** Of each read model there is one, that of its live generation. */
function checkTables({ tables, models }: EventsEvidence, accuse: Accuse): void {
  const live = models.map(({ table }) => table)
  accuseOf(
    accuse,
    'I12',
    tables.filter((table) => !live.includes(table)),
    'tables are left behind',
  )
  accuseOf(
    accuse,
    'I12',
    live.filter((table) => !tables.includes(table)),
    'live tables are gone',
  )
}

/** I13. */
function checkDrained({ drainedAfterMs, limits }: EventsEvidence, accuse: Accuse): void {
  if (drainedAfterMs === undefined)
    accuse('I13', `somebody has not seen everything after ${limits.drainMs} ms`)
}

function checkComplaints({ events, mayComplain }: EventsEvidence, accuse: Accuse): void {
  if (mayComplain) return
  const errors = eventsOf(events, 'error').map(({ by, during, message }) => `${by} ${during}: ${message}`)
  accuseOf(accuse, 'errors', errors, 'errors were shown')
}
