import type { JobState, NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { Flow } from './flow.js'
import { insert as sql } from './sql.generated.js'
import { type Kind, stateNumber, type Tables } from './tables.js'

export type Insert = (jobs: readonly NewJob[]) => InsertResult[]

/** Who hears of new jobs. */
export interface Told {
  ready(queue: string): void
  due(delay: number): void
}

/** Adds jobs inside the current transaction. A job whose id exists is left as it stands. */
export function makeInsert(tables: Tables, flow: Flow, signals: Told): Insert {
  const { db, tally, clock } = tables
  const plain = db.prepare(sql.plain)
  const full = db.prepare(sql.full)
  const exists = db.prepare<[string], number>(sql.exists).pluck()
  const ready = db.prepare(sql.ready)
  const standing = db.prepare<[string], { state: number; leased: number }>(sql.standing)

  return (jobs) => {
    const now = clock.now()
    const results: InsertResult[] = []
    const run = new Run((kind, from, to) => ready.run(kind.queueId, kind.lane, from, to))
    for (const job of jobs) {
      const kind = tables.kindOf(job)
      const dueAt = job.runAt ?? now + job.delay
      const state: JobState = dueAt > now ? 'scheduled' : 'pending'
      const hasTurn = state === 'pending' && takesTurns(job)
      const done = hasTurn ? insertInLine(job, kind, now) : insertRow(job, kind, state, dueAt, now, null)
      if (done.changes === 0) {
        results.push({ status: 'duplicate', state: standingState(job.id) })
        continue
      }
      tally.add(kind.id, state, 1)
      tally.total(kind.id, 'enqueued', 1)
      if (state === 'pending') {
        if (!hasTurn) run.add(kind, done.lastInsertRowid as number)
        signals.ready(kind.queue)
        results.push(insertedPending)
      } else {
        signals.due(dueAt - now)
        results.push(insertedScheduled)
      }
    }
    run.end()
    return results
  }

  function insertRow(
    job: NewJob,
    kind: Kind,
    state: JobState,
    dueAt: number,
    now: number,
    turn: number | null,
  ) {
    const { overrides, tags, metadata, flow: own } = job
    const isPlain =
      overrides === undefined && tags === undefined && metadata === undefined && own === undefined
    if (isPlain && state === 'pending' && turn === null) return plain.run(job.id, kind.id, now, job.input)
    return full.run(
      job.id,
      kind.id,
      stateNumber[state],
      now,
      job.input,
      state === 'scheduled' ? dueAt : null,
      overrides ?? null,
      tags === undefined ? null : JSON.stringify(tags),
      metadata ?? null,
      own?.group ?? null,
      own?.key ?? null,
      own?.gated ? 1 : null,
      turn,
    )
  }

  /** More than its queue can hold it up. */
  function takesTurns({ name, queue, flow: own }: NewJob): boolean {
    return own !== undefined || (tables.queueRow(queue)?.flow === 1 && flow.jobGate(name) !== undefined)
  }

  /** Flow control decides where it stands, and its row is written with that. */
  function insertInLine(job: NewJob, kind: Kind, now: number): { changes: number; lastInsertRowid: number } {
    if (exists.get(job.id) !== undefined) return { changes: 0, lastInsertRowid: 0 }
    const create = (turn: number) => insertRow(job, kind, 'pending', now, now, turn).lastInsertRowid as number
    const waiting = { job, rank: 0, seq: 0, create }
    flow.enter(waiting, false, now)
    return { changes: 1, lastInsertRowid: waiting.seq }
  }

  function standingState(id: string): JobState {
    const row = standing.get(id)
    if (row === undefined) return 'pending'
    return row.leased === 1 ? 'running' : stateName(row.state)
  }
}

const insertedPending: InsertResult = { status: 'inserted', state: 'pending' }
const insertedScheduled: InsertResult = { status: 'inserted', state: 'scheduled' }

const names = Object.keys(stateNumber) as JobState[]
export function stateName(number: number): JobState {
  return names[number] as JobState
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
