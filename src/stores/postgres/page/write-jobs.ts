import type { Entry } from '../../ledger/entry.js'
import { isSame } from '../../page/book.js'
import { placeNumber } from '../../page/heads.js'
import type { JobRow, StoredJob } from '../../page/job-row.js'
import { KinChanges } from '../../page/kin.js'
import type { PagedKind } from '../../page/kinds.js'
import { MarkChanges } from '../../page/marks.js'
import { spansOf, without } from '../../page/spans.js'
import type { PagedTables } from '../../page/tables.js'
import { WaiterChanges } from '../../page/waits.js'
import { addJobs, addLinks, addWaits, type Wait, type Writings } from './writings.js'

/** Where a job waits, as far as it is stored beside its row. */
interface Whereabouts {
  readonly line?: string
  readonly place?: number
  readonly turn?: number
}

/** Jobs that a try has looked at, and all that is kept of each. */
export function writeJobs(tables: PagedTables, out: Writings): void {
  const added: StoredJob[] = []
  const changed: unknown[] = []
  const removed: number[] = []
  const undone: number[] = []
  const waits: Wait[] = []
  const waitsNoMore: number[] = []
  const runs = new Runs()
  const kin = new KinChanges()
  const marks = new MarkChanges()
  const waiters = new WaiterChanges()
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
      if (after.line !== undefined) runs.add(after.line, entry.seq, row === undefined ? stored : undefined)
    }
    // One that waits elsewhere may be another job now: all of it is written anew.
    if (after.place !== before.place || after.turn !== before.turn) {
      if (before.place !== undefined) waitsNoMore.push(entry.seq)
      if (after.place !== undefined) waits.push(waitOf(entry, after, stored as StoredJob))
    }
    kin.see(row, entry, now, steps)
    waiters.see(row, entry, now)
  })
  out.keys('cutDone', undone)
  out.keys('removeJobs', removed)
  addJobs(added, out)
  out.rows('changeJobs', changed)
  out.rows('unmark', marks.gone)
  out.rows('mark', marks.come)
  out.rows('removeRuns', runs.removed())
  out.rows('addRuns', runs.added())
  out.keys('waitsNoMore', waitsNoMore)
  addWaits(waits, out)
  out.rows('removeWaiters', waiters.gone)
  out.rows('waiters', waiters.came)
  writeKin(tables, kin, out)
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
  readonly #added = new Map<string, { readonly seqs: number[]; what: StoredJob | undefined }>()

  cut(row: JobRow, line: string): void {
    const name = `${line} ${row.run_last}`
    const run = this.#cut.get(name) ?? { row, line, seqs: [] }
    run.seqs.push(row.seq)
    this.#cut.set(name, run)
  }

  /** `what`: of a new job. */
  add(line: string, seq: number, what: StoredJob | undefined): void {
    const run = this.#added.get(line) ?? { seqs: [], what }
    run.seqs.push(seq)
    if (what?.kind !== run.what?.kind || what?.created_at !== run.what?.created_at) run.what = undefined
    this.#added.set(line, run)
  }

  removed() {
    return [...this.#cut.values()].map(({ row, line }) => ({ ...splitLine(line), last: row.run_last }))
  }

  added() {
    const runs: unknown[] = []
    const put = (line: string, spans: readonly number[], what?: StoredJob) => {
      const { kind, created_at } = what ?? {}
      for (let i = 0; i < spans.length; i += 2)
        runs.push({ ...splitLine(line), first: spans[i], last: spans[i + 1], kind, created_at })
    }
    for (const { row, line, seqs } of this.#cut.values())
      put(line, without([row.run_first as number, row.run_last as number], seqs))
    for (const [line, { seqs, what }] of this.#added) put(line, spansOf(seqs), what)
    return runs
  }
}

function splitLine(line: string): { queue: number; lane: number } {
  const [queue, lane] = line.split(' ')
  return { queue: Number(queue), lane: Number(lane) }
}

function writeKin(tables: PagedTables, kin: KinChanges, out: Writings): void {
  out.keys('removeParents', kin.noParents)
  out.keys('removeLinks', kin.noParents)
  out.keys('forgetFans', kin.noFans)
  out.rows('parents', kin.parents)
  addLinks(kin.newLinks, out)
  out.rows('links', kin.links)
  out.keys('removeSteps', kin.noSteps)
  out.rows(
    'steps',
    kin.steps.map((step) => ({ ...step, n: tables.nextNum() })),
  )
  out.keys('removeLogs', kin.noLogs)
}
