import { bounds } from '../../core/bounds.js'
import type { NewGuard } from '../../core/guard.js'
import { isFinal, type JobState } from '../../core/job.js'
import { statesFor } from '../../core/lifecycle.js'
import type { Command, OperateReport, Selector } from '../../core/store.js'
import type { Dedupe } from '../../core/traffic/dedupe.js'
import { type Cancel, cancelledChild, makeTakeOut } from './cancel.js'
import { dedupeColumn, makeHolders } from './dedupe.js'
import type { Doom } from './doom.js'
import type { Families } from './family.js'
import { guardColumn, makeLetGo, makeReopen } from './guard.js'
import { listColumn, parse } from './parse.js'
import type { Pending } from './pending.js'
import { only } from './positions.js'
import { type JobRow, type Read, stateOf } from './read.js'
import type { Remove } from './settle.js'
import { family as familySql, operate as sql, sweep as sweepSql } from './sql.generated.js'
import { makeStaying } from './staying.js'
import type { Steps } from './steps.js'
import type { Signals } from './subscribe.js'
import { stateNumber, type Tables, traits } from './tables.js'
import type { Waiting } from './waiting.js'

interface OperateParts {
  readonly read: Read
  readonly pending: Pending
  readonly families: Families
  readonly doom: Doom
  readonly cancel: Cancel
  readonly signals: Signals
  readonly remove: Remove
  readonly steps: Steps
  readonly waiting: Waiting
}

export type Operate = (selector: Selector, command: Command) => OperateReport

const promotable = statesFor('promote')
const retryable = statesFor('retry')

/** Carries out an operator's command inside the current transaction. */
export function makeOperate(tables: Tables, parts: OperateParts): Operate {
  const { read, pending, families, doom, signals, remove, steps, waiting } = parts
  const { db, tally, clock } = tables
  const retryOne = db.prepare(sql.retry)
  const setTraffic = db.prepare(sql.setTraffic)
  const setDedupe = db.prepare(sql.setDedupe)
  const promoteOne = db.prepare(sweepSql.promote)
  const waitOn = db.prepare(familySql.waitOn)
  const takeOut = makeTakeOut(tables, pending, waiting)
  const holders = makeHolders(tables)
  const setGuard = db.prepare(sql.setGuard)
  const setSearch = db.prepare(sql.setSearch)
  const letGoOfGuard = makeLetGo(tables)
  const reopenGuard = makeReopen(tables)
  const staying = makeStaying(tables, families)

  return (selector, command) => {
    const { rows, missing, cursor } = select(selector)
    const report = {
      affected: [] as string[],
      asked: [] as string[],
      refused: [] as string[],
      missing,
      cursor,
    }
    let isStale = false
    for (const found of rows) {
      const row = isStale && isRelated(found) ? (read.row(found.id) as JobRow) : found
      report[apply(row, command, report.affected.length)].push(row.id)
      isStale ||= isRelated(row)
    }
    if (command.do === 'cancel') doom.carryOut(bounds.batch)
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
    const state = stateOf(row)
    switch (command.do) {
      case 'cancel':
        return parts.cancel(row, command.reason, command.retain)
      case 'retry':
        return retry(row, state, command, index)
      case 'promote':
        return promote(row, state)
      case 'remove':
        return removeJob(row, state)
      case 'seal':
        return seal(row, state)
    }
  }

  function retry(row: JobRow, state: JobState, command: Extract<Command, { do: 'retry' }>, index: number) {
    if (!retryable.has(state)) return 'refused'
    takeOut(row, state)
    const { change } = command
    const forgets = state === 'completed' || change.fresh === true
    if (forgets) {
      if (row.stepped === 1) steps.forget(row.seq)
      families.fans.forget(row.seq)
    }
    const { queue, lane, maxAttempts, guard: otherGuard } = change
    const before = tables.kind(row.kind)
    const kind = tables.kindOf({
      ...before,
      queue: queue ?? before.queue,
      lane: lane ?? before.lane,
      maxAttempts: maxAttempts ?? before.maxAttempts,
      traits: traitsAfter(before.traits, otherGuard),
    })
    const delay = Math.round(command.delay + index * command.spacing)
    families.replayed(row)
    const waits = families.startOver(row.seq) === 'waits'
    const to = waits ? 'blocked' : delay > 0 ? 'scheduled' : 'pending'
    const now = clock.now()
    const dueAt = to === 'scheduled' ? now + delay : null
    if (change.dedupe === undefined) holders.holdAgain(row, now)
    else holdOther(row, change.dedupe, now)
    if (otherGuard !== undefined && otherGuard?.key !== parse<NewGuard>(row.guard)?.key) letGoOfGuard(row)
    const guard = otherGuard === undefined ? row.guard : guardColumn(otherGuard)
    if (otherGuard !== undefined) setGuard.run(guard, row.seq)
    if (change.search !== undefined) setSearch.run(listColumn(change.search), row.seq)
    reopenGuard({ id: row.id, guard }, now)
    retryOne.run(
      stateNumber[to],
      kind.id,
      dueAt,
      now,
      change.input ?? null,
      change.overrides ?? null,
      forgets ? 1 : 0,
      row.seq,
    )
    if (change.traffic !== undefined) {
      const { group = null, key = null, gated = false } = change.traffic ?? {}
      setTraffic.run(group, key, gated ? 1 : null, row.seq)
    }
    tally.add(kind.id, to, 1)
    if (to === 'pending') pending.enter(kind, row.seq, false)
    else if (to === 'scheduled') signals.due(delay)
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
    if (state === 'running' || (isFinal(state) && !staying.mayGo(row))) return 'refused'
    if (state !== 'completed') holders.letGo(row)
    letGoOfGuard(row)
    takeOut(row, state)
    // Whoever waited for it need not wait any longer.
    if (!isFinal(state)) families.ended(row, cancelledChild(row.id), clock.now())
    remove(only(row.seq))
    return 'affected'
  }

  function seal(row: JobRow, state: JobState) {
    const verdict = isFinal(state) ? undefined : families.seal(row.seq, state)
    if (verdict === undefined) return 'refused'
    if (verdict === 'ready') waiting.wake(row.seq, clock.now())
    if (verdict !== 'waits') return 'affected'
    takeOut(row, state)
    waitOn.run(row.seq)
    tally.add(row.kind, 'blocked', 1)
    return 'affected'
  }
}

/** What happens to it may wake, revive or send back others that were read before; it removes none of them. */
function isRelated({ family, parent }: JobRow): boolean {
  return family !== null || parent !== null
}

function traitsAfter(before: number, guard: NewGuard | null | undefined): number {
  if (guard === undefined) return before
  return guard === null ? before & ~traits.guard : before | traits.guard
}
