import { cancelledFor, staysFor } from '../../core/family.js'
import { isFinal, type JobState } from '../../core/job.js'
import { statesFor } from '../../core/lifecycle.js'
import { makeHolders } from './dedupe.js'
import type { ChildEnd } from './ends.js'
import type { Families } from './family.js'
import { makeLetGo } from './guard.js'
import type { Pending } from './pending.js'
import { only } from './positions.js'
import { type JobRow, stateOf } from './read.js'
import { makeForgetDeath, type Remove } from './settle.js'
import { operate as sql, sweep as sweepSql } from './sql.generated.js'
import type { Signals } from './subscribe.js'
import { stays, type Tables, unwinds } from './tables.js'
import type { Waiting } from './waiting.js'

export type Cancel = (row: JobRow, reason: string, retain: number) => 'affected' | 'asked' | 'refused'

export interface CancelParts {
  readonly pending: Pending
  readonly waiting: Waiting
  readonly families: Families
  /** What only it waited for is to be cancelled too. */
  readonly doom: (seq: number) => void
  readonly signals: Pick<Signals, 'cancel' | 'changed'>
  readonly remove: Remove
}

const cancellable = statesFor('cancel')

/** Cancels a job that waits; asks one that runs to stop. */
export function makeCancel(tables: Tables, parts: CancelParts): Cancel {
  const { pending, waiting, families, doom, signals, remove } = parts
  const { db, tally, clock } = tables
  const cancelOne = db.prepare(sql.cancel)
  const ask = db.prepare(sql.ask)
  const holders = makeHolders(tables)
  const letGoOfGuard = makeLetGo(tables)
  const takeOut = makeTakeOut(tables, pending, waiting)
  const promote = db.prepare(sweepSql.promote)

  return (row, reason, retain) => {
    const state = stateOf(row)
    if (!cancellable.has(state)) return 'refused'
    if (state === 'running') {
      ask.run(reason, row.seq)
      signals.cancel()
      return 'asked'
    }
    const now = clock.now()
    if (unwinds(tables.kind(row.kind)) && row.started_at !== null) return unwind(row, state, reason, now)
    holders.letGo(row)
    letGoOfGuard(row)
    takeOut(row, state)
    tally.total(row.kind, 'cancelled', 1)
    families.ended(row, cancelledChild(row.id), now)
    const own = stays(tables.kind(row.kind)) ? staysFor(retain) : retain
    const kept = cancelledFor(own, families.hasOpenChildren(row.seq))
    if (kept === 0) {
      remove(only(row.seq))
    } else {
      cancelOne.run(reason, now, now + kept, row.seq)
      tally.add(row.kind, 'cancelled', 1)
      doom(row.seq)
    }
    signals.changed()
    return 'affected'
  }

  /** Its handler has to undo what it did: it is ready for that, and only the handler ends it. */
  function unwind(row: JobRow, state: JobState, reason: string, now: number): 'asked' {
    ask.run(reason, row.seq)
    if (state === 'blocked') waiting.wake(row.seq, now)
    else if (state !== 'pending') {
      promote.run(now, row.seq)
      tally.move(row.kind, state, 'pending', 1)
      pending.enter(tables.kind(row.kind), row.seq, state === 'retrying')
    }
    return 'asked'
  }
}

export function cancelledChild(id: string): ChildEnd {
  return { id, end: 'cancelled', result: undefined, failure: undefined }
}

/** Leaves the state that the job is in, with all that goes with it. */
export function makeTakeOut(
  tables: Tables,
  pending: Pending,
  waiting: Waiting,
): (row: JobRow, state: JobState) => void {
  const forgetDeath = makeForgetDeath(tables)
  return (row, state) => {
    const kind = tables.kind(row.kind)
    if (state === 'pending') pending.leave(kind, row.seq)
    if (state === 'blocked') waiting.forget(row.seq)
    if (isFinal(state) && row.cause !== null) forgetDeath(row.cause)
    tables.tally.add(kind.id, state, -1)
  }
}
