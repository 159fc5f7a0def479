import type { Entry } from '../../ledger/entry.js'
import type { Parenthood } from '../../ledger/parenthood.js'
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
      if (after.line !== undefined) runs.add(after.line, entry.seq, row === undefined ? stored : undefined)
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
