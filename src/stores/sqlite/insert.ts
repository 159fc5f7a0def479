import { newestWins } from '../../core/flow/dedupe.js'
import type { Overflow } from '../../core/flow/depth.js'
import type { JobState, NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { makeHolders, type StandingJob } from './dedupe.js'
import { type Doors, makeDoors } from './doors.js'
import type { Flow, Places } from './flow.js'
import type { Pending } from './pending.js'
import { insert as sql } from './sql.generated.js'
import { type Kind, stateName, stateNumber, type Tables } from './tables.js'

export interface Insert {
  (jobs: readonly NewJob[]): InsertResult[]
  /** Adds what a handler added: its settlement is not to fail because a queue is full. */
  fromHandler(jobs: readonly NewJob[]): void
}

/** Who hears of new jobs. */
export interface Told {
  ready(queue: string): void
  due(delay: number): void
}

/** Adds jobs inside the current transaction. A job whose id exists is left as it stands. */
export function makeInsert(
  tables: Tables,
  flow: Flow,
  places: Places,
  pending: Pending,
  signals: Told,
): Insert {
  const { db, tally, clock } = tables
  const plain = db.prepare(sql.plain)
  const full = db.prepare(sql.full)
  const ready = db.prepare(sql.ready)
  const standing = db.prepare<[string], { seq: number; state: number; leased: number }>(sql.standing)
  const holders = makeHolders(tables, pending, standingJob, signals)
  const makeDoorsOfInsert = makeDoors(tables, places)

  const insert = ((jobs) => {
    const doors = makeDoorsOfInsert()
    const results = insertAll(jobs, doors)
    doors.close()
    return results
  }) as Insert
  insert.fromHandler = (jobs) => void insertAll(jobs, undefined)
  return insert

  function insertAll(jobs: readonly NewJob[], doors: Doors | undefined): InsertResult[] {
    const now = clock.now()
    const run = new Run((kind, from, to) => ready.run(kind.queueId, kind.lane, from, to))
    const results = jobs.map((job) => insertOne(job, doors, run, now))
    run.end()
    return results
  }

  function insertOne(job: NewJob, doors: Doors | undefined, run: Run, now: number): InsertResult {
    const kind = tables.kindOf(job)
    // A plain job that exists shows when its row is written; others must not change anything before.
    const known =
      job.dedupe !== undefined || takesTurns(job) || doors?.of(job.queue) !== undefined
        ? standingJob(job.id)
        : undefined
    if (known !== undefined) return { status: 'duplicate', state: known.state }
    // The one whose place it takes may have come in the same batch, and must stand in line by then.
    if (job.dedupe !== undefined) run.end()
    const verdict = job.dedupe === undefined ? undefined : holders.dedupe(job, job.dedupe, now)
    if (verdict !== undefined && 'status' in verdict) return verdict
    const dueAt = (job.runAt ?? now + job.delay) + (verdict?.delay ?? 0)
    if (dueAt > now) return addLater(job, kind, dueAt, now)

    const door = doors?.of(job.queue)
    const admission = door?.admit(job.lane)
    if (admission === undefined || admission.verdict === 'take') return addReady(job, kind, run, now)
    if (admission.verdict === 'full') return refusal('full', admission)
    const defer = door?.policy.defer ?? 0
    tally.total(kind.id, defer === 0 ? 'shed' : 'deferred', 1)
    if (defer === 0) return refusal('shed', admission)
    addLater(job, kind, now + defer, now)
    return { status: 'deferred', state: 'scheduled' }
  }

  function addReady(job: NewJob, kind: Kind, run: Run, now: number): InsertResult {
    if (takesTurns(job)) {
      const create = (turn: number) => insertRow(job, kind, now, now, turn).lastInsertRowid as number
      flow.enter({ job, rank: 0, seq: 0, create }, false, now)
    } else {
      const { changes, lastInsertRowid } = insertRow(job, kind, now, now, null)
      if (changes === 0) return { status: 'duplicate', state: standingJob(job.id)?.state ?? 'pending' }
      run.add(kind, lastInsertRowid as number)
    }
    count(job, kind, 'pending', now)
    signals.ready(kind.queue)
    return insertedPending
  }

  function addLater(job: NewJob, kind: Kind, dueAt: number, now: number): InsertResult {
    if (insertRow(job, kind, dueAt, now, null).changes === 0)
      return { status: 'duplicate', state: standingJob(job.id)?.state ?? 'pending' }
    count(job, kind, 'scheduled', now)
    signals.due(dueAt - now)
    return insertedScheduled
  }

  function count(job: NewJob, kind: Kind, state: JobState, now: number): void {
    tally.add(kind.id, state, 1)
    tally.total(kind.id, 'enqueued', 1)
    if (job.dedupe !== undefined) holders.hold(job, job.dedupe, now)
  }

  function insertRow(job: NewJob, kind: Kind, dueAt: number, now: number, turn: number | null) {
    const { overrides, tags, metadata, flow: own, dedupe } = job
    const later = dueAt > now
    const isPlain =
      overrides === undefined &&
      tags === undefined &&
      metadata === undefined &&
      own === undefined &&
      dedupe === undefined
    if (isPlain && !later && turn === null) return plain.run(job.id, kind.id, now, job.input)
    return full.run(
      job.id,
      kind.id,
      stateNumber[later ? 'scheduled' : 'pending'],
      now,
      job.input,
      later ? dueAt : null,
      overrides ?? null,
      tags === undefined ? null : JSON.stringify(tags),
      metadata ?? null,
      own?.group ?? null,
      own?.key ?? null,
      own?.gated ? 1 : null,
      dedupe !== undefined && newestWins(dedupe.mode) ? dedupe.key : null,
      turn,
    )
  }

  /** More than its queue can hold it up. */
  function takesTurns({ name, queue, flow: own }: NewJob): boolean {
    return own !== undefined || (tables.queueRow(queue)?.flow === 1 && flow.jobGate(name) !== undefined)
  }

  function standingJob(id: string): StandingJob | undefined {
    const row = standing.get(id)
    if (row === undefined) return undefined
    return { seq: row.seq, state: row.leased === 1 ? 'running' : stateName(row.state) }
  }
}

const insertedPending: InsertResult = { status: 'inserted', state: 'pending' }
const insertedScheduled: InsertResult = { status: 'inserted', state: 'scheduled' }

function refusal(status: 'shed' | 'full', { depth, limit, wait }: Overflow): InsertResult {
  return { status, state: undefined, overflow: { depth, limit, wait } }
}

/** Positions that follow each other, of one queue and lane, become ready with one statement. */
class Run {
  #kind: Kind | undefined
  #from = 0
  #to = 0
  readonly #flush: (kind: Kind, from: number, to: number) => void

  constructor(flush: (kind: Kind, from: number, to: number) => void) {
    this.#flush = flush
  }

  add(kind: Kind, seq: number): void {
    const same =
      this.#kind !== undefined && this.#kind.queueId === kind.queueId && this.#kind.lane === kind.lane
    if (!same || seq !== this.#to + 1) {
      this.end()
      this.#kind = kind
      this.#from = seq
    }
    this.#to = seq
  }

  end(): void {
    if (this.#kind !== undefined) this.#flush(this.#kind, this.#from, this.#to)
    this.#kind = undefined
  }
}
