import { bounds } from '../../core/bounds.js'
import type { LogLine } from '../../core/job.js'
import { linesAfter, newLines } from '../../core/report.js'
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
export function makeExtend(tables: Tables, writeHeld: WriteHeld, families: Families): Extend {
  const renew = makeRenew(tables)
  const findStrays = makeFindStrays(tables)

  return (request) => {
    const now = tables.clock.now()
    const num = renew(request.worker, now + request.lease)
    const lost: string[] = []
    const cancels: { id: string; reason: string }[] = []
    const open: string[] = []
    for (const held of request.held) {
      const written = writeHeld(num, held)
      if (written === undefined) {
        lost.push(held.id)
        continue
      }
      if (written.reason !== null) cancels.push({ id: held.id, reason: written.reason })
      if (held.closes !== undefined) open.push(...families.fans.close(written.seq, held.closes))
    }
    return { lost, cancels, open, strays: findStrays(num, request, now) }
  }
}

interface Written {
  readonly seq: number
  /** Why it was asked to stop. */
  readonly reason: string | null
}

/** Writes what a running job reported and added; undefined for one that the worker does not hold. */
export type WriteHeld = (worker: number, held: Held) => Written | undefined

export function makeWriteHeld(tables: Tables, writeReport: WriteReport, insert: Insert): WriteHeld {
  const heldBy = tables.db.prepare<[number, number, string], HeldRow>(sql.held)
  const setLogged = tables.db.prepare(sql.logged)
  return (worker, held) => {
    const lease = readToken(held.id, held.token)
    const row = lease && heldBy.get(worker, lease.seq, lease.claim)
    if (lease === undefined || row === undefined) return undefined
    writeReport(lease.seq, held, row.logged)
    const logged = linesAfter(held, row.logged)
    if (logged !== row.logged) setLogged.run(logged, worker, lease.seq)
    if (held.inserts !== undefined) insert.fromHandler(held.inserts, held.id)
    return { seq: lease.seq, reason: row.reason }
  }
}

interface HeldRow {
  readonly reason: string | null
  readonly logged: number
}

/** `logged`: lines of the run that are written. */
export type WriteReport = (seq: number, report: Report, logged: number) => void

export function makeWriteReport(tables: Tables, steps: Steps): WriteReport {
  const progress = tables.db.prepare(sql.progress)
  const keepLogs = makeKeepLogs(tables)
  return (seq, report, logged) => {
    if (report.progress !== undefined) progress.run(report.progress, seq)
    if (report.logs !== undefined) keepLogs(seq, newLines(report, logged))
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
