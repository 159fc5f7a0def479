import { bounds } from '../../../core/bounds.js'
import type { PagedBook } from '../../page/book.js'
import { spansOf } from '../../page/spans.js'
import type { PagedTables } from '../../page/tables.js'
import type { CountedEnds } from '../ends.js'
import { type Told, ToldJobs } from '../told.js'
import { writeJobs } from './write-jobs.js'
import { type Writing, Writings } from './writings.js'

/** All that is to be written of what a try has changed; nothing of what it left as it was. */
export function writings(tables: PagedTables): Writing[] {
  const out = new Writings()
  writeEnds(tables, out)
  writeJobs(tables, out)
  writeHeads(tables, out)
  writePlaces(tables, out)
  writeWorkers(tables, out)
  writeRecord(out, tables.records.holder, 'holders', 'removeHolders')
  writeRecord(out, tables.records.guard, 'guards', 'removeGuards')
  writeRecord(out, tables.records.schedule, 'schedules', 'removeSchedules')
  writeRecord(out, tables.records.mail, 'mail', 'removeMail')
  writeCauses(tables, out)
  writeCounts(tables, out)
  writeLogs(tables, out)
  if (tables.lastNum !== undefined) out.add('number', tables.lastNum)
  return out.all
}

function writeEnds({ ended, page }: PagedTables, out: Writings): void {
  if (ended === undefined) return
  const { starts, settled, results } = ended as CountedEnds
  out.add('end', page.now, starts, settled, results)
}

function writeHeads({ heads }: PagedTables, out: Writings): void {
  const { started, moved } = heads.changes()
  out.rows(
    'waitsElsewhere',
    moved.map(({ row: { seq }, place, rank }) => ({ seq, place, rank })),
  )
  if (started.length === 0) return
  const spans = spansOf(started.map(({ seq }) => seq))
  const take = ([answer]: readonly Told[]) => heads.hear(new ToldJobs(answer as Told))
  out.all.push({ statement: 'startWaiting', values: [spans, started.length], take })
}

function writePlaces(tables: PagedTables, out: Writings): void {
  const { kept, gone, looksAgain, lines } = tables.books.changes()
  for (const { scope, owner, due } of looksAgain) out.add('lookAgain', scope, owner, due)
  out.keys(
    'removeGates',
    gone.map(({ num }) => num),
  )
  out.rows(
    'gates',
    kept.map(({ row }) => row as never),
  )
  out.rows('lines', lines)
}

function writeWorkers(tables: PagedTables, out: Writings): void {
  const { kept, gone } = tables.workers.changes()
  const { leases, ended } = tables.workers.leaseChanges()
  out.rows('forgetWorkers', gone)
  out.rows('workers', kept)
  out.keys('endLeases', ended)
  out.rows('leases', leases)
}

function writeRecord(out: Writings, book: PagedBook<unknown>, put: string, remove: string): void {
  const { kept, gone } = book.changes()
  out.keys(remove, gone)
  out.rows(put, kept)
}

function writeCauses({ causes }: PagedTables, out: Writings): void {
  const { died, rose } = causes.tally()
  out.rows('died', died)
  if (rose.length === 0) return
  out.rows('rose', rose)
  out.add('forgetCauses')
}

function writeCounts(tables: PagedTables, out: Writings): void {
  const rows = tables.kinds.changed().map(({ num, states, totals }) => {
    const row: Record<string, number> = { kind: num }
    for (const [state, count] of Object.entries(states)) if (count !== 0) row[state] = count
    for (const [total, count] of Object.entries(totals)) if (count !== 0) row[`total_${total}`] = count
    return row
  })
  out.rows('tally', rows)
  out.rows(
    'queues',
    tables.kinds.changedQueues().map(({ num, paused, traffic }) => ({ num, paused, traffic })),
  )
}

function writeLogs(tables: PagedTables, out: Writings): void {
  const rows = tables.logs.flatMap(({ seq, lines }) =>
    lines.map((line) => ({ seq, n: tables.nextNum(), line: JSON.stringify(line) })),
  )
  out.rows('logs', rows)
  if (rows.length > 0) out.add('trimLogs', [...new Set(tables.logs.map(({ seq }) => seq))], bounds.logLines)
}
