import { type Entry, storyOf } from '../ledger/entry.js'
import { Parenthood } from '../ledger/parenthood.js'
import type { Book } from '../ledger/shelf.js'
import type { PagedHeads } from './heads.js'
import {
  isSpecial,
  isStepped,
  type JobRow,
  onlyParent,
  readEntry,
  type StoredJob,
  writeEntry,
} from './job-row.js'
import type { PagedKind, PagedKinds } from './kinds.js'
import { PagedLinks } from './links.js'
import { Missing, Stale } from './needs.js'
import type { Page } from './page.js'
import type { PagedPlaces } from './places.js'
import { PagedSteps } from './steps.js'
import type { PagedWorkers } from './workers.js'

/** What a job's row refers to. */
export interface JobParts {
  readonly heads: PagedHeads
  readonly kinds: PagedKinds
  readonly places: PagedPlaces
  readonly workers: PagedWorkers
}

/** A job that this try has looked at, and its row if it was read. */
interface Seen {
  readonly row: JobRow | undefined
  readonly entry: Entry
  readonly steps: PagedSteps | undefined
}

export class PagedJobs implements Book<Entry> {
  readonly #page: Page
  readonly #parts: JobParts
  readonly #byId = new Map<string, Entry | undefined>()
  readonly #seen = new Map<number, Seen>()

  constructor(page: Page, parts: JobParts) {
    this.#page = page
    this.#parts = parts
  }

  get(id: string): Entry | undefined {
    if (this.#byId.has(id)) return this.#byId.get(id)
    const row = this.#page.row<JobRow>('job', id)
    return row === null ? undefined : this.ofRow(row)
  }

  ofRow(row: JobRow): Entry {
    const known = this.#seen.get(row.seq)
    if (known !== undefined) return known.entry
    if (this.#parts.heads.has(row.seq)) this.#needsAll(row)
    const entry = this.#read(row)
    this.#byId.set(row.id, entry)
    this.#seen.set(row.seq, { row, entry, steps: entry.story?.steps as PagedSteps | undefined })
    return entry
  }

  /** One that this try has looked at. */
  at(seq: number): Entry | undefined {
    return this.#seen.get(seq)?.entry
  }

  /** It was taken for no more than the head of a line. */
  #needsAll(row: JobRow): never {
    this.#page.entire.set(row.seq, row)
    this.#page.needs.key('job', row.id)
    throw new Missing()
  }

  set(id: string, entry: Entry): void {
    this.#byId.set(id, entry)
    this.#seen.set(entry.seq, { row: undefined, entry, steps: undefined })
  }

  delete(id: string): void {
    this.#byId.set(id, undefined)
  }

  stored(entry: Entry): StoredJob {
    return writeEntry(entry, (entry.kind as PagedKind).num, this.#parentOf(entry))
  }

  isSpecial(entry: Entry): boolean {
    return isSpecial(entry, this.#parentOf(entry))
  }

  #parentOf({ job, seq }: Entry): number | undefined {
    const parent = onlyParent(job)
    if (parent === undefined) return undefined
    const entry = this.#byId.get(parent)
    if (entry !== undefined) return entry.seq
    return this.#seen.get(seq)?.row?.child_of ?? undefined
  }

  /** Visits those that this try has looked at; `now` is undefined for one that is gone. */
  visit(each: (seen: Seen, now: Entry | undefined) => void): void {
    for (const seen of this.#seen.values()) {
      const now = this.#byId.get(seen.entry.job.id) === seen.entry ? seen.entry : undefined
      if (now !== undefined || seen.row !== undefined) each(seen, now)
    }
  }

  #read(row: JobRow): Entry {
    const entry = readEntry(row, this.#parts.kinds.byNum(row.kind))
    if (isStepped(row)) storyOf(entry).steps = new PagedSteps(this.#page, row.seq, false)
    if (row.parent !== null) storyOf(entry).parenthood = readParenthood(this.#page, row)
    if (row.state !== 0 || row.expires_at !== null) return entry
    if (row.place !== null) storyOf(entry).place = this.#parts.places.place(row.place)
    else if (row.run_first === null) this.#findLease(entry, row)
    return entry
  }

  #findLease(entry: Entry, row: JobRow): void {
    const lease = this.#parts.workers.leaseFor(row)
    // It was settled between two looks.
    if (lease === undefined) throw new Stale()
    entry.state = 'running'
    entry.lease = lease
  }
}

interface ParentState
  extends Pick<
    Parenthood,
    'fanned' | 'failed' | 'failedFanned' | 'open' | 'alarmed' | 'replays' | 'compensated'
  > {
  readonly closed: readonly string[]
  readonly fans: readonly (readonly [string, number])[]
  readonly size: number
  readonly fanLinks: number
}

function readParenthood(page: Page, { seq, id, parent, waiting, doomed }: JobRow): Parenthood {
  const state = JSON.parse(parent as string) as ParentState
  const links = new PagedLinks(page, { seq, id }, { size: state.size, fanned: state.fanLinks })
  const parenthood = new Parenthood(links)
  const { fanned, failed, failedFanned, open, alarmed, replays, compensated } = state
  Object.assign(parenthood, { waiting, fanned, failed, failedFanned, open, alarmed, replays, compensated })
  parenthood.doomedFrom = doomed ?? undefined
  for (const fan of state.closed) parenthood.closed.add(fan)
  for (const [fan, left] of state.fans) parenthood.fans.set(fan, left)
  return parenthood
}

export function writeParenthood(parenthood: Parenthood): {
  waiting: number
  doomed: string | null
  state: string
} {
  const { waiting, fanned, failed, failedFanned, open, alarmed, replays, compensated } = parenthood
  const links = parenthood.links as PagedLinks
  const state: ParentState = {
    fanned,
    failed,
    failedFanned,
    open,
    alarmed,
    replays,
    compensated,
    closed: [...parenthood.closed],
    fans: [...parenthood.fans],
    size: links.size,
    fanLinks: links.fanned,
  }
  return { waiting, doomed: parenthood.doomedFrom ?? null, state: JSON.stringify(state) }
}
