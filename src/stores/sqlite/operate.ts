import type { Dedupe } from '../../core/flow/dedupe.js'
import { isFinal, type JobState } from '../../core/job.js'
import { statesFor } from '../../core/lifecycle.js'
import type { Command, OperateReport, Selector } from '../../core/store.js'
import { dedupeColumn, makeHolders } from './dedupe.js'
import type { Pending } from './pending.js'
import { only } from './positions.js'
import type { JobRow, Read } from './read.js'
import { makeForgetDeath, type Remove } from './settle.js'
import { operate as sql, sweep as sweepSql } from './sql.generated.js'
import type { Steps } from './steps.js'
import type { Signals } from './subscribe.js'
import { stateNumber, type Tables, unwinds } from './tables.js'
import type { Waiting } from './waiting.js'

export type Operate = (selector: Selector, command: Command) => OperateReport

interface OperateParts {
  readonly read: Read
  readonly pending: Pending
  readonly signals: Signals
  readonly remove: Remove
  readonly steps: Steps
  readonly waiting: Waiting
}

const cancellable = statesFor('cancel')
const promotable = statesFor('promote')
const retryable = statesFor('retry')

/** Carries out an operator's command inside the current transaction. */
export function makeOperate(
  tables: Tables,
  { read, pending, signals, remove, steps, waiting }: OperateParts,
): Operate {
  const { db, tally, clock } = tables
  const cancelOne = db.prepare(sql.cancel)
  const ask = db.prepare(sql.ask)
  const retryOne = db.prepare(sql.retry)
  const setFlow = db.prepare(sql.setFlow)
  const setDedupe = db.prepare(sql.setDedupe)
  const promoteOne = db.prepare(sweepSql.promote)
  const forgetDeath = makeForgetDeath(tables)
  const holders = makeHolders(tables)

  return (selector, command) => {
    const { rows, missing, cursor } = select(selector)
    const report = {
      affected: [] as string[],
      asked: [] as string[],
      refused: [] as string[],
      missing,
      cursor,
    }
    for (const row of rows) {
      report[apply(row, command, report.affected.length)].push(row.id)
    }
    return report
  }

  function select(selector: Selector): { rows: JobRow[]; missing: string[]; cursor: string | undefined } {
    if ('filter' in selector) {
      const { rows, cursor } = read.rows(selector)
      return { rows, missing: [], cursor }
    }
    const ids = [...new Set(selector.ids)]
    const found = ids.map((id) => read.row(id))
    return {
      rows: found.filter((row) => row !== undefined),
      missing: ids.filter((_, i) => found[i] === undefined),
      cursor: undefined,
    }
  }

  function apply(row: JobRow, command: Command, index: number): 'affected' | 'asked' | 'refused' {
    const state = read.stateOf(row)
    switch (command.do) {
      case 'cancel':
        return cancel(row, state, command)
      case 'retry':
        return retry(row, state, command, index)
      case 'promote':
        return promote(row, state)
      case 'remove':
        return removeJob(row, state)
      case 'seal':
        return 'refused'
    }
  }

  function cancel(row: JobRow, state: JobState, { reason, retain }: Extract<Command, { do: 'cancel' }>) {
    if (!cancellable.has(state)) return 'refused'
    if (state === 'running') {
      ask.run(reason, row.seq)
      signals.cancel()
      return 'asked'
    }
    if (unwinds(tables.kind(row.kind)) && row.started_at !== null) return unwind(row, state, reason)
    holders.letGo(row)
    takeOut(row, state)
    tally.total(row.kind, 'cancelled', 1)
    if (retain === 0) {
      remove(only(row.seq))
    } else {
      const now = clock.now()
      cancelOne.run(reason, now, now + retain, row.seq)
      tally.add(row.kind, 'cancelled', 1)
    }
    signals.changed()
    return 'affected'
  }

  /** Its handler has to undo what it did: it is ready for that, and only the handler ends it. */
  function unwind(row: JobRow, state: JobState, reason: string): 'asked' {
    ask.run(reason, row.seq)
    if (state === 'blocked') waiting.wake(row.seq, clock.now())
    else if (state !== 'pending') {
      promoteOne.run(clock.now(), row.seq)
      tally.move(row.kind, state, 'pending', 1)
      pending.enter(tables.kind(row.kind), row.seq, state === 'retrying')
    }
    return 'asked'
  }

  function retry(row: JobRow, state: JobState, command: Extract<Command, { do: 'retry' }>, index: number) {
    if (!retryable.has(state)) return 'refused'
    takeOut(row, state)
    const { change } = command
    if (row.stepped === 1 && (state === 'completed' || change.fresh === true)) steps.forget(row.seq)
    const kind = tables.kindOf({ ...tables.kind(row.kind), ...change })
    const delay = Math.round(command.delay + index * command.spacing)
    const to = delay > 0 ? 'scheduled' : 'pending'
    const now = clock.now()
    const dueAt = delay > 0 ? now + delay : null
    if (change.dedupe === undefined) holders.holdAgain(row, now)
    else holdOther(row, change.dedupe, now)
    retryOne.run(
      stateNumber[to],
      kind.id,
      dueAt,
      now,
      change.input ?? null,
      change.overrides ?? null,
      row.seq,
    )
    if (change.flow !== undefined) {
      const { group = null, key = null, gated = false } = change.flow ?? {}
      setFlow.run(group, key, gated ? 1 : null, row.seq)
    }
    tally.add(kind.id, to, 1)
    if (to === 'pending') pending.enter(kind, row.seq, false)
    else signals.due(delay)
    return 'affected'
  }

  /** Another input may have another key. */
  function holdOther(row: JobRow, rule: Dedupe | null, now: number): void {
    holders.letGo(row)
    const dedupe = dedupeColumn(rule ?? undefined)
    setDedupe.run(dedupe, row.seq)
    holders.holdAgain({ ...row, dedupe }, now)
  }

  function promote(row: JobRow, state: JobState) {
    if (!promotable.has(state)) return 'refused'
    promoteOne.run(clock.now(), row.seq)
    tally.move(row.kind, state, 'pending', 1)
    pending.enter(tables.kind(row.kind), row.seq, state === 'retrying')
    return 'affected'
  }

  function removeJob(row: JobRow, state: JobState) {
    if (state === 'running') return 'refused'
    if (state !== 'completed') holders.letGo(row)
    takeOut(row, state)
    remove(only(row.seq))
    return 'affected'
  }

  /** Leaves the state that the job is in, with all that goes with it. */
  function takeOut(row: JobRow, state: JobState): void {
    const kind = tables.kind(row.kind)
    if (state === 'pending') pending.leave(kind, row.seq)
    if (state === 'blocked') waiting.forget(row.seq)
    if (isFinal(state) && row.cause !== null) forgetDeath(row.cause)
    tally.add(kind.id, state, -1)
  }
}
