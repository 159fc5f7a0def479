import { linesAfter, newLines } from '../../core/report.js'
import type { ExtendRequest, ExtendResult, Report } from '../../core/store.js'
import { type Entry, storyOf } from './entry.js'
import { closeFans } from './fans.js'
import { insertFromHandler } from './insert.js'
import { writeSteps } from './steps.js'
import { findStrays } from './strays.js'
import type { Tables } from './tables.js'
import type { Lease } from './worker.js'

/** Renews the worker's lease; writes what the jobs that it still holds reported and added, and only those; names its strays. */
export function extend(tables: Tables, request: ExtendRequest): ExtendResult {
  const now = tables.clock.now()
  tables.needRoom(request.held.reduce((sum, { inserts }) => sum + (inserts?.length ?? 0), 0))
  const worker = tables.workers.renew(request.worker, now + request.lease)
  const lost: string[] = []
  const cancels: { id: string; reason: string }[] = []
  const open: string[] = []
  tables.each(request.held, (held) => {
    const entry = tables.jobs.get(held.id)
    if (!tables.isHeld(entry, worker, held.token)) {
      lost.push(held.id)
      return
    }
    const reason = entry.story?.cancelReason
    if (reason !== undefined) cancels.push({ id: held.id, reason })
    writeReport(tables, entry, entry.lease as Lease, held)
    if (held.inserts !== undefined) insertFromHandler(tables, held.inserts, held.id, now)
    if (held.closes !== undefined) open.push(...closeFans(entry, held.closes))
  })
  return { lost, cancels, open, strays: findStrays(tables, worker, request, now) }
}

/** Sets the progress; keeps the steps; appends lines to the log and lets the oldest go. */
export function writeReport(tables: Tables, entry: Entry, lease: Lease, report: Report): void {
  const { progress, logs, steps } = report
  if (progress !== undefined) storyOf(entry).progress = progress
  if (steps !== undefined && steps.length > 0) writeSteps(tables, entry, steps)
  if (logs !== undefined && logs.length > 0) writeLogs(tables, entry, lease, report)
}

function writeLogs(tables: Tables, entry: Entry, { token }: Lease, report: Report): void {
  const story = storyOf(entry)
  const written = story.logged?.claim === token ? story.logged.lines : 0
  const lines = newLines(report, written)
  if (lines.length > 0) tables.addLogs(entry, lines)
  const after = linesAfter(report, written)
  if (after > written) story.logged = { claim: token, lines: after }
}
