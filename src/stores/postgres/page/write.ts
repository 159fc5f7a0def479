import { bounds } from '../../../core/bounds.js'
import { newToken } from '../../../system/ids.js'
import type { Entry } from '../../ledger/entry.js'
import type { Parenthood } from '../../ledger/parenthood.js'
import { Json, separator, type Value } from '../literal.js'
import type { Told } from '../told.js'
import type { PagedBook } from './book.js'
import { isSame } from './book.js'
import { placeNumber } from './heads.js'
import type { JobRow, StoredJob } from './job-row.js'
import { writeParenthood } from './jobs.js'
import type { PagedKind } from './kinds.js'
import type { LinkRow, PagedLinks } from './links.js'
import { type Mark, marksBefore, marksOf, marksOnlyIn } from './marks.js'
import { spansOf, without } from './spans.js'
import type { PagedSteps } from './steps.js'
import type { PagedTables } from './tables.js'

/** A statement of write.sql with its values. */
export interface Writing {
  readonly statement: string
  readonly values: readonly Value[]
  /** What becomes of its answer. */
  take?(rows: readonly never[]): void
}

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

class Writings {
  readonly all: Writing[] = []

  add(statement: string, ...values: Value[]): void {
    this.all.push({ statement, values })
  }

  rows(statement: string, rows: readonly unknown[]): void {
    if (rows.length > 0) this.add(statement, new Json(rows))
  }

  keys(statement: string, keys: readonly string[] | readonly number[]): void {
    if (keys.length > 0) this.add(statement, keys)
  }
}

function writeEnds({ ended, page }: PagedTables, out: Writings): void {
  if (ended === undefined) return
  const { starts, settled, results } = ended
  out.add('end', page.now, starts, settled, results)
}

function writeHeads({ heads }: PagedTables, out: Writings): void {
  const { spans, count, moved } = heads.changes()
  out.rows('waitsElsewhere', moved)
  if (count === 0) return
  const take = ([answer]: readonly Told[]) => heads.hear(answer as Told)
  out.all.push({ statement: 'startWaiting', values: [spans, count], take })
}

/** Where a job waits, as far as it is stored beside its row. */
interface Whereabouts {
  readonly line?: string
  readonly place?: number
  readonly turn?: number
}

function writeJobs(tables: PagedTables, out: Writings): void {
  const added: StoredJob[] = []
  const changed: unknown[] = []
  const removed: number[] = []
  const undone: number[] = []
  const waits: Wait[] = []
  const waitsNoMore: number[] = []
  const runs = new Runs()
  const kin = new Kin()
  const marks = new Marks()
  const waiters: { key: string; n: number; seq: number }[] = []
  const waitersGone: { key: string; n: number }[] = []
  tables.jobs.visit(({ row, entry, steps }, now) => {
    const stored = now && tables.jobs.stored(now)
    const stays = row !== undefined && now !== undefined && isAsItEnded(now, row)
    if (stored === undefined) removed.push(entry.seq)
    else if (row === undefined) added.push(stored)
    else if (!stays && !isSame(stored, row as never)) changed.push(stored)
    if (row !== undefined && row.expires_at !== null && !stays) undone.push(entry.seq)
    if (!stays) marks.see(row, stored)
    const before = row === undefined ? {} : whereWas(tables, row)
    const after = now === undefined ? {} : whereIs(now)
    if (before.line !== after.line) {
      if (row !== undefined && before.line !== undefined) runs.cut(row, before.line)
      if (after.line !== undefined) runs.add(after.line, entry.seq)
    }
    // One that waits elsewhere may be another job now: all of it is written anew.
    if (after.place !== before.place || after.turn !== before.turn) {
      if (before.place !== undefined) waitsNoMore.push(entry.seq)
      if (after.place !== undefined) waits.push(waitOf(entry, after, stored as StoredJob))
    }
    kin.see(row, entry, now, steps)
    seeWaits(row, entry, now, waiters, waitersGone)
  })
  out.keys('cutDone', undone)
  out.keys('removeJobs', removed)
  addJobs(added, out)
  out.rows('changeJobs', changed)
  marks.write(out)
  out.rows('removeRuns', runs.removed())
  out.rows('addRuns', runs.added())
  out.keys('waitsNoMore', waitsNoMore)
  addWaits(waits, out)
  out.rows('removeWaiters', waitersGone)
  out.rows('waiters', waiters)
  kin.write(tables, out)
}

/** As lists: far cheaper than rows, on both sides. */
function addJobs(jobs: readonly StoredJob[], out: Writings): void {
  const [first] = jobs
  if (first === undefined) return
  const apart = separatorFor(
    jobs,
    ({ input, overrides, metadata, rest }) => has(input) || has(overrides) || has(metadata) || has(rest),
  )
  const texts = (of: (job: StoredJob) => string | null) => listOf(jobs, of, apart)
  const numbers = (of: (job: StoredJob) => number | null) =>
    jobs.some((job) => of(job) !== null) ? jobs.map(of) : null
  out.add(
    'addJobs',
    jobs.map(({ seq }) => seq),
    first.created_at,
    jobs.map(({ kind }) => kind),
    jobs.map(({ max_attempts }) => max_attempts),
    jobs.map(({ max_crashes }) => max_crashes),
    jobs.map(({ state }) => state),
    jobs.map(({ special }) => Number(special)),
    jobs.map(({ id }) => id).join(apart),
    jobs.map(({ input }) => input).join(apart),
    numbers(({ rank }) => rank),
    // What arrived may be at its end by now.
    numbers(({ finished_at }) => finished_at),
    numbers(({ child_of }) => child_of),
    texts(({ overrides }) => overrides),
    texts(({ tags }) => tags),
    texts(({ search }) => search),
    texts(({ metadata }) => metadata),
    apart,
    ...unlessSame(jobs, ({ rest }) => rest, apart),
  )
}

/** A text that is in none of theirs. */
function separatorFor<T>(items: readonly T[], holdsUsual: (item: T) => boolean): string {
  return items.some(holdsUsual) ? `${separator}${newToken()}${separator}` : separator
}

function has(text: string | null): boolean {
  return text?.includes(separator) === true
}

function addLinks(links: readonly LinkRow[], out: Writings): void {
  if (links.length === 0) return
  const apart = separatorFor(links, ({ fan, result, state }) => has(fan) || has(result) || has(state))
  const list = (of: (link: LinkRow) => string | null) => listOf(links, of, apart)
  const [states, sameState] = unlessSame(links, ({ state }) => state, apart)
  out.add(
    'addLinks',
    links.map(({ parent }) => parent),
    links.map(({ child }) => child).join(apart),
    list(({ fan }) => fan),
    links.some(({ ended_at }) => ended_at !== null) ? links.map(({ ended_at }) => ended_at) : null,
    list(({ result }) => result),
    states,
    apart,
    sameState,
  )
}

function listOf<T>(items: readonly T[], of: (item: T) => string | null, apart: string): string | null {
  return items.some((item) => of(item) !== null) ? items.map((item) => of(item) ?? '').join(apart) : null
}

/** As a list, or as one for all. */
function unlessSame<T>(
  items: readonly T[],
  of: (item: T) => string | null,
  apart: string,
): [list: string | null, same: string | null] {
  const first = of(items[0] as T)
  return items.every((item) => of(item) === first) ? [null, first] : [listOf(items, of, apart), null]
}

function addWaits(waits: readonly Wait[], out: Writings): void {
  if (waits.length === 0) return
  out.add(
    'wait',
    waits.map(({ seq }) => seq),
    waits.map(({ place }) => place),
    waits.map(({ kind }) => kind),
    waits.map(({ rank }) => rank),
    waits.map(({ gated }) => Number(gated)),
    waits.map(({ special }) => Number(special)),
    waits.map(({ gates }) => gates).join(','),
  )
}

/** One that completed on the fast path, and that nothing happened to since. */
function isAsItEnded({ state, rank }: Entry, row: JobRow): boolean {
  return row.expires_at !== null && state === 'completed' && rank === row.expires_at
}

/** By its row: it may be of another kind now. */
function whereWas({ kinds }: PagedTables, row: JobRow): Whereabouts {
  if (row.place !== null) return { place: row.place, turn: row.turn as number }
  return row.run_first === null ? {} : { line: lineName(kinds.byNum(row.kind)) }
}

function whereIs({ state, kind, rank, story }: Entry): Whereabouts {
  if (state !== 'pending') return {}
  const place = story?.place
  if (place === undefined) return { line: lineName(kind as PagedKind) }
  return { place: placeNumber(place), turn: rank }
}

interface Wait {
  readonly seq: number
  readonly place: number
  readonly kind: number
  readonly rank: number
  readonly gated: boolean
  readonly special: boolean
  readonly gates: string
}

/** A child is special where it waits: its end is counted at its parent too. */
function waitOf(entry: Entry, { place, turn }: Whereabouts, { kind, special }: StoredJob): Wait {
  const { seq, job } = entry
  return {
    seq,
    place: place as number,
    kind,
    rank: turn as number,
    gated: job.traffic?.gated === true,
    special: special || job.family !== undefined,
    gates: entry.gates?.map(({ num }) => num).join(':') ?? '',
  }
}

function lineName({ queue, lane }: PagedKind): string {
  return `${queue.num} ${lane}`
}

/** Runs of pending jobs: those that are cut, and those that come. */
class Runs {
  readonly #cut = new Map<string, { readonly row: JobRow; readonly line: string; readonly seqs: number[] }>()
  readonly #added = new Map<string, number[]>()

  cut(row: JobRow, line: string): void {
    const name = `${line} ${row.run_last}`
    const run = this.#cut.get(name) ?? { row, line, seqs: [] }
    run.seqs.push(row.seq)
    this.#cut.set(name, run)
  }

  add(line: string, seq: number): void {
    const seqs = this.#added.get(line) ?? []
    seqs.push(seq)
    this.#added.set(line, seqs)
  }

  removed() {
    return [...this.#cut.values()].map(({ row, line }) => ({ ...splitLine(line), last: row.run_last }))
  }

  added() {
    const runs: { queue: number; lane: number; first: number; last: number }[] = []
    const put = (line: string, spans: readonly number[]) => {
      for (let i = 0; i < spans.length; i += 2)
        runs.push({ ...splitLine(line), first: spans[i] as number, last: spans[i + 1] as number })
    }
    for (const { row, line, seqs } of this.#cut.values())
      put(line, without([row.run_first as number, row.run_last as number], seqs))
    for (const [line, seqs] of this.#added) put(line, spansOf(seqs))
    return runs
  }
}

function splitLine(line: string): { queue: number; lane: number } {
  const [queue, lane] = line.split(' ')
  return { queue: Number(queue), lane: Number(lane) }
}

/** What jobs are found by. */
class Marks {
  readonly #gone: Mark[] = []
  readonly #come: Mark[] = []

  see(row: JobRow | undefined, stored: StoredJob | undefined): void {
    const before = row === undefined ? [] : marksBefore(row)
    const after = stored === undefined ? [] : marksOf(stored)
    this.#gone.push(...marksOnlyIn(before, after))
    this.#come.push(...marksOnlyIn(after, before))
  }

  write(out: Writings): void {
    out.rows('unmark', this.#gone)
    out.rows('mark', this.#come)
  }
}

/** Children, and steps. */
class Kin {
  readonly #parents: unknown[] = []
  readonly #links: LinkRow[] = []
  readonly #newLinks: LinkRow[] = []
  readonly #steps: { seq: number; name: string; open: boolean; state: string }[] = []
  readonly #noFans: number[] = []
  readonly #noParents: number[] = []
  readonly #noSteps: number[] = []
  readonly #noLogs: number[] = []

  see(row: JobRow | undefined, entry: Entry, now: Entry | undefined, before: PagedSteps | undefined): void {
    if (now === undefined) {
      if (row?.parent) this.#noParents.push(entry.seq)
      if (before !== undefined) this.#noSteps.push(entry.seq)
      this.#noLogs.push(entry.seq)
      return
    }
    const parenthood = now.story?.parenthood
    if (parenthood !== undefined) this.#seeParent(row, now.seq, parenthood)
    const steps = now.story?.steps as PagedSteps | undefined
    if (before !== undefined && steps !== before) this.#noSteps.push(now.seq)
    for (const step of steps?.written.values() ?? [])
      this.#steps.push({ seq: now.seq, name: step.name, open: step.open, state: JSON.stringify(step) })
  }

  #seeParent(row: JobRow | undefined, seq: number, parenthood: Parenthood): void {
    const { waiting, doomed, state } = writeParenthood(parenthood)
    if (row?.parent !== state || row.waiting !== waiting || row.doomed !== doomed)
      this.#parents.push({ seq, waiting, doomed, state })
    const { added, kept, fansForgotten } = (parenthood.links as PagedLinks).changes()
    if (fansForgotten) this.#noFans.push(seq)
    this.#links.push(...kept)
    this.#newLinks.push(...added)
  }

  write(tables: PagedTables, out: Writings): void {
    out.keys('removeParents', this.#noParents)
    out.keys('removeLinks', this.#noParents)
    out.keys('forgetFans', this.#noFans)
    out.rows('parents', this.#parents)
    addLinks(this.#newLinks, out)
    out.rows('links', this.#links)
    out.keys('removeSteps', this.#noSteps)
    out.rows(
      'steps',
      this.#steps.map((step) => ({ ...step, n: tables.nextNum() })),
    )
    out.keys('removeLogs', this.#noLogs)
  }
}

function seeWaits(
  row: JobRow | undefined,
  entry: Entry,
  now: Entry | undefined,
  came: { key: string; n: number; seq: number }[],
  gone: { key: string; n: number }[],
): void {
  const before = row?.rest?.includes('"waits":') ? (JSON.parse(row.rest) as Waits) : undefined
  const waits = now?.story?.waits
  const n = now?.story?.waiter ?? 0
  if (before?.waits !== undefined && (waits === undefined || before.waiter !== n))
    for (const { key } of before.waits) gone.push({ key, n: before.waiter ?? 0 })
  if (waits !== undefined && before?.waiter !== n)
    for (const { key } of waits) came.push({ key, n, seq: entry.seq })
}

interface Waits {
  readonly waits?: readonly { readonly key: string }[]
  readonly waiter?: number
}

function writePlaces(tables: PagedTables, out: Writings): void {
  const { kept, gone, looksAgain, lines } = tables.books.changes()
  for (const { scope, owner, due } of looksAgain) out.add('lookAgain', scope, owner, due)
  out.keys('removeGates', gone)
  out.rows('gates', kept)
  out.rows('lines', lines)
}

function writeWorkers(tables: PagedTables, out: Writings): void {
  const { kept, gone, leases, ended } = tables.workers.changes()
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

function writeCauses(tables: PagedTables, out: Writings): void {
  const died = new Map<string, { cause: string; name: string; first_at: number; count: number }>()
  const rose = new Map<string, number>()
  for (const change of tables.causes.changes) {
    if ('remove' in change) rose.set(change.remove, (rose.get(change.remove) ?? 0) + 1)
    else {
      const { cause, name, message, at, sample } = change.add
      const before = died.get(cause)
      died.set(cause, {
        cause,
        name: before?.name ?? name,
        ...{ message, last_at: at, sample },
        first_at: before?.first_at ?? at,
        count: (before?.count ?? 0) + 1,
      })
    }
  }
  out.rows('died', [...died.values()])
  if (rose.size === 0) return
  out.rows(
    'rose',
    [...rose].map(([cause, count]) => ({ cause, count })),
  )
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
