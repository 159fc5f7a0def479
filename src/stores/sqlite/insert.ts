import type { JobState, NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { insert as sql } from './sql.generated.js'
import { type Kind, stateNumber, type Tables } from './tables.js'

export type Insert = (jobs: readonly NewJob[]) => InsertResult[]

/** Who hears of new jobs. */
export interface Told {
  ready(queue: string): void
  due(delay: number): void
}

/** Adds jobs inside the current transaction. A job whose id exists is left as it stands. */
export function makeInsert(tables: Tables, signals: Told): Insert {
  const { db, tally, clock } = tables
  const plain = db.prepare(sql.plain)
  const full = db.prepare(sql.full)
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
      const done =
        state === 'pending' &&
        job.overrides === undefined &&
        job.tags === undefined &&
        job.metadata === undefined
          ? plain.run(job.id, kind.id, now, job.input)
          : full.run(
              job.id,
              kind.id,
              stateNumber[state],
              now,
              job.input,
              state === 'scheduled' ? dueAt : null,
              job.overrides ?? null,
              job.tags === undefined ? null : JSON.stringify(job.tags),
              job.metadata ?? null,
            )
      if (done.changes === 0) {
        results.push({ status: 'duplicate', state: standingState(job.id) })
        continue
      }
      tally.add(kind.id, state, 1)
      tally.total(kind.id, 'enqueued', 1)
      if (state === 'pending') {
        run.add(kind, done.lastInsertRowid as number)
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
