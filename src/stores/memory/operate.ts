import { statesFor } from '../../core/lifecycle.js'
import type { Command, OperateReport, RetryChange, Selector } from '../../core/store.js'
import { holdAgain, letGo } from './dedupe.js'
import { type Entry, storyOf } from './entry.js'
import { select } from './select.js'
import type { Tables } from './tables.js'
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
  for (const entry of entries) {
    report[apply(tables, entry, command, report.affected.length, now)].push(entry.job.id)
  }
  return report
}

function find(tables: Tables, selector: Selector) {
  const missing: string[] = []
  if ('filter' in selector) return { ...select(tables, selector), missing }
  const entries: Entry[] = []
  for (const id of new Set(selector.ids)) {
    const entry = tables.jobs.get(id)
    if (entry === undefined) missing.push(id)
    else entries.push(entry)
  }
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
      return remove(tables, entry)
    case 'seal':
      return 'refused'
  }
}

function cancel(tables: Tables, entry: Entry, { reason, retain }: Cancel, now: number): Verdict {
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
  tables.leave(entry)
  entry.kind.totals.cancelled++
  if (retain === 0) {
    tables.jobs.delete(entry.job.id)
  } else {
    story.finishedAt = now
    tables.enter(entry, 'cancelled', now + retain)
  }
  // Who waits for the job's end has no settlement to hear of.
  tables.signals.changed()
  return 'affected'
}

/** A new life: attempts, crashes and what came of them start again; the history and last failure stay. */
function retry(tables: Tables, entry: Entry, command: Retry, index: number, now: number): Verdict {
  if (!retryable.has(entry.state)) return 'refused'
  if (entry.state === 'completed' || command.change.fresh === true) storyOf(entry).steps = undefined
  tables.leave(entry)
  if (command.change.dedupe !== undefined) letGo(tables, entry)
  change(tables, entry, command.change)
  holdAgain(tables, entry, now)
  const story = storyOf(entry)
  story.attempt = 0
  story.crashes = 0
  story.retryDelay = 0
  story.readyAt = now
  story.finishedAt = undefined
  story.result = undefined
  story.cancelReason = undefined
  story.progress = undefined
  const delay = Math.round(command.delay + index * command.spacing)
  if (delay > 0) {
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
    flow: wanted.flow === undefined ? job.flow : (wanted.flow ?? undefined),
    dedupe: wanted.dedupe === undefined ? job.dedupe : (wanted.dedupe ?? undefined),
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

function remove(tables: Tables, entry: Entry): Verdict {
  if (entry.state === 'running') return 'refused'
  if (entry.state !== 'completed') letGo(tables, entry)
  tables.leave(entry)
  tables.jobs.delete(entry.job.id)
  return 'affected'
}
