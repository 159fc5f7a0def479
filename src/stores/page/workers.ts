import type { Entry } from '../ledger/entry.js'
import type { Lease, Worker, Workers } from '../ledger/worker.js'
import type { JobRow } from './job-row.js'
import type { Page } from './page.js'
import { covers, type Spans, spansOf, together, without } from './spans.js'

export interface WorkerRow {
  readonly id: string
  /** The newest row of a worker counts, and has the highest one. */
  readonly num: number
  readonly expires_at: number
  readonly latest: string | null
  readonly leases: readonly LeaseRow[]
}

export interface LeaseRow {
  readonly token: string
  readonly worker: string
  readonly at: number
  readonly undone: number
  /** Undefined where jobs tell themselves whose they are. */
  readonly spans: Spans | undefined
}

type FindJob = (id: string) => Entry | undefined

export class PagedWorkers implements Workers {
  readonly #page: Page
  readonly #find: FindJob
  readonly #workers = new Map<string, PagedWorker | undefined>()
  readonly #forgotten: { readonly id: string; readonly num: number }[] = []
  /** A lease is renewed only by a claim that takes jobs: who polls writes nothing. */
  readonly #renewsByTaking: boolean

  constructor(page: Page, find: FindJob, renewsByTaking: boolean) {
    this.#page = page
    this.#find = find
    this.#renewsByTaking = renewsByTaking
  }

  get(id: string): PagedWorker | undefined {
    if (this.#workers.has(id)) return this.#workers.get(id)
    const row = this.#page.row<WorkerRow>('worker', id)
    return row === null ? undefined : this.#ofRow(row)
  }

  renew(id: string, expiresAt: number): PagedWorker {
    const worker = this.get(id) ?? new PagedWorker(this.#page, this.#find, id, undefined)
    this.#workers.set(id, worker)
    worker.expiresAt = expiresAt
    return worker
  }

  *lapsed(): Generator<PagedWorker, void> {
    for (const row of this.#page.sheet<readonly WorkerRow[]>('lapsed')) {
      const worker = this.#workers.has(row.id) ? this.#workers.get(row.id) : this.#ofRow(row)
      if (worker !== undefined) yield worker
    }
  }

  forget(worker: Worker): void {
    const { id, num } = worker as PagedWorker
    this.#workers.set(id, undefined)
    if (num !== undefined) this.#forgotten.push({ id, num })
  }

  /** Whose job it is: a live one that waits nowhere. */
  leaseFor({ seq, id }: JobRow): PagedLease | undefined {
    for (const worker of this.#workers.values()) {
      const lease = worker?.leaseOver(seq)
      if (lease !== undefined) return lease
    }
    const row = this.#page.row<Pick<LeaseRow, 'token' | 'worker'>>('leaseOf', id)
    return row === null ? undefined : this.get(row.worker)?.openLease(row.token)
  }

  changes() {
    const kept: { id: string; expires_at: number; latest: string | null }[] = []
    for (const [id, worker] of this.#workers)
      if (worker?.isChanged(this.#renewsByTaking))
        kept.push({ id, expires_at: worker.expiresAt, latest: worker.latest ?? null })
    return { kept, gone: this.#forgotten }
  }

  /** Of an engine that keeps what a lease covers. */
  leaseChanges() {
    const leases: (Omit<LeaseRow, 'spans'> & { spans: string })[] = []
    const ended: string[] = []
    for (const worker of this.#workers.values()) {
      for (const lease of worker?.leases() ?? []) {
        const change = lease.change()
        if (change === undefined) continue
        if (change.undone === 0) ended.push(lease.token)
        else leases.push({ ...change, spans: `{${change.spans.join(',')}}` })
      }
    }
    return { leases, ended }
  }

  #ofRow(row: WorkerRow): PagedWorker {
    const worker = new PagedWorker(this.#page, this.#find, row.id, row)
    this.#workers.set(row.id, worker)
    return worker
  }
}

class PagedWorker implements Worker {
  readonly id: string
  expiresAt: number
  latest: string | undefined
  readonly #row: WorkerRow | undefined
  readonly #page: Page
  readonly #find: FindJob
  readonly #leases = new Map<string, PagedLease>()

  constructor(page: Page, find: FindJob, id: string, row: WorkerRow | undefined) {
    this.#page = page
    this.#find = find
    this.#row = row
    this.id = id
    this.expiresAt = row?.expires_at ?? 0
    this.latest = row?.latest ?? undefined
    for (const lease of row?.leases ?? [])
      this.#leases.set(lease.token, this.#lease(lease.token, lease.at, lease))
  }

  get num(): number | undefined {
    return this.#row?.num
  }

  leaseOf(token: string): PagedLease | undefined {
    const lease = this.#leases.get(token)
    if (lease !== undefined || token !== this.latest) return lease
    return this.#lease(token, this.#page.now, undefined)
  }

  /** Of a claim that has jobs still. */
  openLease(token: string): PagedLease | undefined {
    return this.#leases.get(token)
  }

  newLease(token: string, at: number): PagedLease {
    const lease = this.#lease(token, at, undefined)
    this.#leases.set(token, lease)
    this.latest = token
    return lease
  }

  leaseOver(seq: number): PagedLease | undefined {
    for (const lease of this.#leases.values()) if (lease.covers(seq)) return lease
    return undefined
  }

  /** What it was given in this try. */
  taken(): Entry[] {
    return [...this.#leases.values()].flatMap((lease) => [...lease.taken])
  }

  leases(): Iterable<PagedLease> {
    return this.#leases.values()
  }

  held(most: number): Entry[] {
    const entries: Entry[] = []
    for (const lease of this.#leases.values()) entries.push(...lease.held())
    return entries.sort((a, b) => a.seq - b.seq).slice(0, most)
  }

  isChanged(byTaking: boolean): boolean {
    if (byTaking && !this.#hasTaken()) return false
    return this.#row?.expires_at !== this.expiresAt || (this.#row?.latest ?? undefined) !== this.latest
  }

  #hasTaken(): boolean {
    for (const lease of this.#leases.values()) if (lease.taken.size > 0) return true
    return false
  }

  #lease(token: string, at: number, row: LeaseRow | undefined): PagedLease {
    return new PagedLease(this.#page, this.#find, this, token, at, row)
  }
}

class PagedLease implements Lease {
  readonly worker: PagedWorker
  readonly token: string
  readonly at: number
  readonly #page: Page
  readonly #find: FindJob
  readonly #row: LeaseRow | undefined
  readonly #taken = new Set<Entry>()
  readonly #dropped = new Set<number>()

  constructor(
    page: Page,
    find: FindJob,
    worker: PagedWorker,
    token: string,
    at: number,
    row: LeaseRow | undefined,
  ) {
    this.#page = page
    this.#find = find
    this.worker = worker
    this.token = token
    this.at = at
    this.#row = row
  }

  get taken(): ReadonlySet<Entry> {
    return this.#taken
  }

  get size(): number {
    return Math.max(0, (this.#row?.undone ?? 0) - this.#dropped.size + this.#taken.size)
  }

  /** As it was read. */
  covers(seq: number): boolean {
    return this.#row?.spans !== undefined && covers(this.#row.spans, seq)
  }

  /** It is sure not to have it. */
  lacks(seq: number): boolean {
    return this.#row === undefined || (this.#row.spans !== undefined && !covers(this.#row.spans, seq))
  }

  add(entry: Entry): void {
    entry.lease = this
    this.#taken.add(entry)
  }

  drop(entry: Entry): void {
    entry.lease = undefined
    if (!this.#taken.delete(entry)) this.#dropped.add(entry.seq)
  }

  /** Of a job that nothing else is known of. */
  dropAt(seq: number): void {
    this.#dropped.add(seq)
  }

  held(): Entry[] {
    const ids = this.#row === undefined ? [] : (this.#page.row<string[]>('held', this.token) ?? [])
    const stored = ids.flatMap((id) => this.#find(id) ?? []).filter(({ lease }) => lease === this)
    return [...stored, ...this.#taken]
  }

  /** How it is to be stored, if that is not as it was read. */
  change(): (LeaseRow & { readonly spans: Spans }) | undefined {
    if (this.#taken.size + this.#dropped.size === 0) return undefined
    const spans = together(
      without(this.#row?.spans ?? [], this.#dropped),
      spansOf([...this.#taken].map(({ seq }) => seq)),
    )
    return { token: this.token, worker: this.worker.id, at: this.at, undone: this.size, spans }
  }
}
