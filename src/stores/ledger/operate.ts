import { bounds } from '../../core/bounds.js'
import { cancelledFor, staysFor } from '../../core/family.js'
import { isFinal } from '../../core/job.js'
import { statesFor } from '../../core/lifecycle.js'
import type { Command, OperateReport, RetryChange, Selector } from '../../core/store.js'
import { holdAgain, letGo } from './dedupe.js'
import { cancelDoomed, doom } from './doom.js'
import { childEnded } from './ends.js'
import { type Entry, storyOf } from './entry.js'
import { seal } from './family.js'
import { forgetFans } from './fans.js'
import { letGoOfGuard, reopenGuard } from './guard.js'
import { hasOpenChildren } from './parenthood.js'
import { childReplayed, startOver } from './replays.js'
import { mayBeRemoved } from './staying.js'
import type { Selection, Tables } from './tables.js'
import { wake } from './waiting.js'

type Cancel = Extract<Command, { do: 'cancel' }>
type Retry = Extract<Command, { do: 'retry' }>
type Verdict = 'affected' | 'asked' | 'refused'

const cancellable = statesFor('cancel')
const promotable = statesFor('promote')
const retryable = statesFor('retry')

export function operate(tables: Tables, selector: Selector, command: Command): OperateReport {
  const { entries, missing, cursor } = find(tables, selector)
  const report = { affected: [] as string[], asked: [] as string[], refused: [] as string[], missing, cursor }
  const now = tables.clock.now()
  tables.each(entries, (entry) => {
    report[apply(tables, entry, command, report.affected.length, now)].push(entry.job.id)
  })
  if (command.do === 'cancel') cancelUnwanted(tables, bounds.batch, now)
  return report
}

function find(tables: Tables, selector: Selector): Selection & { missing: string[] } {
  const missing: string[] = []
  if ('filter' in selector) return { ...tables.select(selector), missing }
  const entries: Entry[] = []
  tables.each(new Set(selector.ids), (id) => {
    const entry = tables.jobs.get(id)
    if (entry === undefined) missing.push(id)
    else entries.push(entry)
  })
  return { entries, missing, cursor: undefined }
}

function apply(tables: Tables, entry: Entry, command: Command, index: number, now: number): Verdict {
  switch (command.do) {
    case 'cancel':
      return cancel(tables, entry, command, now)
    case 'retry':
      return retry(tables, entry, command, index, now)
    case 'promote':
      return promote(tables, entry, now)
    case 'remove':
      return remove(tables, entry, now)
    case 'seal':
      return seal(tables, entry, now) ? 'affected' : 'refused'
  }
}

export function cancel(tables: Tables, entry: Entry, { reason, retain }: Cancel, now: number): Verdict {
  if (!cancellable.has(entry.state)) return 'refused'
  const story = storyOf(entry)
  story.cancelReason = reason
  if (entry.state === 'running') {
    tables.signals.cancel()
    return 'asked'
  }
  if (entry.job.unwinds === true && story.startedAt !== undefined) {
    if (entry.state !== 'pending') wake(tables, entry, now)
    return 'asked'
  }
  letGo(tables, entry)
  letGoOfGuard(tables, entry)
  tables.leave(entry)
  entry.kind.totals.cancelled++
  const own = entry.job.family?.stays === true ? staysFor(retain) : retain
  const kept = cancelledFor(own, hasOpenChildren(entry))
  if (kept === 0) {
    tables.jobs.delete(entry.job.id)
  } else {
    story.finishedAt = now
    tables.enter(entry, 'cancelled', now + kept)
  }
  childEnded(tables, entry, 'cancelled', nothing, now)
  doom(tables, entry)
  // Who waits for the job's end has no settlement to hear of.
  tables.signals.changed()
  return 'affected'
}

/** A new life: attempts, crashes and what came of them start again; the history and last failure stay. */
function retry(tables: Tables, entry: Entry, command: Retry, index: number, now: number): Verdict {
  if (!retryable.has(entry.state)) return 'refused'
  if (entry.state === 'completed' || command.change.fresh === true) {
    storyOf(entry).steps = undefined
    storyOf(entry).startedAt = undefined
    forgetFans(entry)
  }
  tables.leave(entry)
  if (command.change.dedupe !== undefined) letGo(tables, entry)
  const { guard } = command.change
  if (guard !== undefined && guard?.key !== entry.job.guard?.key) letGoOfGuard(tables, entry)
  change(tables, entry, command.change)
  holdAgain(tables, entry, now)
  reopenGuard(tables, entry, now)
  const story = storyOf(entry)
  story.attempt = 0
  story.crashes = 0
  story.retryDelay = 0
  story.readyAt = now
  story.finishedAt = undefined
  story.result = undefined
  story.cancelReason = undefined
  story.progress = undefined
  childReplayed(tables, entry)
  const delay = Math.round(command.delay + index * command.spacing)
  if (startOver(tables, entry) === 'waits') {
    tables.enter(entry, 'blocked', Number.POSITIVE_INFINITY)
  } else if (delay > 0) {
    tables.enter(entry, 'scheduled', now + delay)
    tables.signals.due(delay)
  } else {
    tables.enter(entry, 'pending', 0)
  }
  return 'affected'
}

function change(tables: Tables, entry: Entry, wanted: RetryChange): void {
  const { job } = entry
  entry.job = {
    ...job,
    input: wanted.input ?? job.input,
    lane: wanted.lane ?? job.lane,
    queue: wanted.queue ?? job.queue,
    maxAttempts: wanted.maxAttempts ?? job.maxAttempts,
    overrides: wanted.overrides ?? job.overrides,
    traffic: wanted.traffic === undefined ? job.traffic : (wanted.traffic ?? undefined),
    dedupe: wanted.dedupe === undefined ? job.dedupe : (wanted.dedupe ?? undefined),
    guard: wanted.guard === undefined ? job.guard : (wanted.guard ?? undefined),
    search: wanted.search === undefined ? job.search : (wanted.search ?? undefined),
  }
  entry.kind = tables.kinds.of(entry.job)
}

function promote(tables: Tables, entry: Entry, now: number): Verdict {
  if (!promotable.has(entry.state)) return 'refused'
  tables.leave(entry)
  storyOf(entry).readyAt = now
  tables.enter(entry, 'pending', 0)
  return 'affected'
}

function remove(tables: Tables, entry: Entry, now: number): Verdict {
  if (entry.state === 'running' || (isFinal(entry.state) && !mayBeRemoved(tables, entry))) return 'refused'
  if (entry.state !== 'completed') letGo(tables, entry)
  letGoOfGuard(tables, entry)
  tables.leave(entry)
  tables.jobs.delete(entry.job.id)
  tables.doomed.delete(entry)
  // Whoever waited for it need not wait any longer.
  if (!isFinal(entry.state)) childEnded(tables, entry, 'cancelled', nothing, now)
  return 'affected'
}

const nothing = { result: undefined, failure: undefined }

/** Goes on cancelling what only cancelled jobs waited for. */
export function cancelUnwanted(tables: Tables, limit: number, now: number): number {
  return cancelDoomed(tables, limit, (entry, reason, retain) => {
    cancel(tables, entry, { do: 'cancel', reason, retain }, now)
  })
}
