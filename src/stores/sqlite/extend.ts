import { bounds } from '../../core/bounds.js'
import type { LogLine } from '../../core/job.js'
import type { ExtendRequest, ExtendResult, Report } from '../../core/store.js'
import { makeRenew } from './claim.js'
import type { Insert } from './insert.js'
import { extend as sql } from './sql.generated.js'
import type { Tables } from './tables.js'
import { leaseToken } from './token.js'

export type Extend = (request: ExtendRequest) => ExtendResult

interface HeldRow {
  readonly id: string
  readonly token: string
  readonly seq: number
  readonly kind: number
  readonly cancel_reason: string | null
}

/** Renews the worker's lease; writes what the jobs that it still holds reported and added, and only of those. */
export function makeExtend(tables: Tables, writeReport: WriteReport, insert: Insert): Extend {
  const { db, clock } = tables
  const held = db.prepare<[number], HeldRow>(sql.held)
  const renew = makeRenew(tables)

  return (request) => {
    const num = renew(request.worker, clock.now() + request.lease)
    if (request.held.length === 0) return { lost: [], cancels: [] }
    const rows = new Map(held.all(num).map((row) => [row.id, row]))
    const lost: string[] = []
    const cancels: { id: string; reason: string }[] = []
    for (const job of request.held) {
      const row = rows.get(job.id)
      if (row === undefined || leaseToken(row.id, row.seq, row.kind, row.token) !== job.token) {
        lost.push(job.id)
        continue
      }
      if (row.cancel_reason !== null) cancels.push({ id: job.id, reason: row.cancel_reason })
      writeReport(row.seq, job)
      if (job.inserts !== undefined) insert.fromHandler(job.inserts, job.id)
    }
    return { lost, cancels }
  }
}

export type WriteReport = (seq: number, report: Report) => void

export function makeWriteReport(tables: Tables): WriteReport {
  const progress = tables.db.prepare(sql.progress)
  const keepLogs = makeKeepLogs(tables)
  return (seq, report) => {
    if (report.progress !== undefined) progress.run(report.progress, seq)
    if (report.logs !== undefined) keepLogs(seq, report.logs)
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
