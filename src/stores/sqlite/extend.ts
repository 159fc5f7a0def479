import { bounds } from '../../core/bounds.js'
import type { LogLine } from '../../core/job.js'
import type { ExtendRequest, ExtendResult, Held, Report } from '../../core/store.js'
import { readToken } from '../ledger/token.js'
import { makeRenew } from './claim.js'
import type { Families } from './family.js'
import type { Insert } from './insert.js'
import { extend as sql } from './sql.generated.js'
import type { Steps } from './steps.js'
import { makeFindStrays } from './strays.js'
import type { Tables } from './tables.js'

export type Extend = (request: ExtendRequest) => ExtendResult

/** Renews the worker's lease; writes what the jobs that it still holds reported and added, and only those; names its strays. */
export function makeExtend(
  tables: Tables,
  writeReport: WriteReport,
  insert: Insert,
  families: Families,
): Extend {
  const { db, clock } = tables
  const heldBy = db.prepare<[number, number, string], { reason: string | null }>(sql.held)
  const renew = makeRenew(tables)
  const findStrays = makeFindStrays(tables)

  return (request) => {
    const now = clock.now()
    const num = renew(request.worker, now + request.lease)
    const lost: string[] = []
    const cancels: { id: string; reason: string }[] = []
    const open: string[] = []
    for (const held of request.held) {
      const reason = write(num, held, open)
      if (reason === undefined) lost.push(held.id)
      else if (reason !== null) cancels.push({ id: held.id, reason })
    }
    return { lost, cancels, open, strays: findStrays(num, request, now) }
  }

  /** Why it was asked to stop, null if it was not, or undefined for a job that the worker does not hold. */
  function write(worker: number, held: Held, open: string[]): string | null | undefined {
    const lease = readToken(held.id, held.token)
    const row = lease && heldBy.get(worker, lease.seq, lease.claim)
    if (lease === undefined || row === undefined) return undefined
    writeReport(lease.seq, held)
    if (held.inserts !== undefined) insert.fromHandler(held.inserts, held.id)
    if (held.closes !== undefined) open.push(...families.fans.close(lease.seq, held.closes))
    return row.reason
  }
}

export type WriteReport = (seq: number, report: Report) => void

export function makeWriteReport(tables: Tables, steps: Steps): WriteReport {
  const progress = tables.db.prepare(sql.progress)
  const keepLogs = makeKeepLogs(tables)
  return (seq, report) => {
    if (report.progress !== undefined) progress.run(report.progress, seq)
    if (report.logs !== undefined) keepLogs(seq, report.logs)
    if (report.steps !== undefined && report.steps.length > 0) steps.write(seq, report.steps)
  }
}

/** Appends lines and lets the oldest go. */
function makeKeepLogs({ db }: Tables): (seq: number, lines: readonly LogLine[]) => void {
  const next = db.prepare<[number], number>(sql.nextLog).pluck()
  const add = db.prepare(sql.log)
  const trim = db.prepare(sql.trimLogs)
  return (seq, lines) => {
    let n = next.get(seq) as number
    for (const line of lines.slice(-bounds.logLines)) add.run(seq, n++, line.at, line.level, line.text)
    if (n - 1 > bounds.logLines) trim.run(seq, n - 1 - bounds.logLines)
  }
}
