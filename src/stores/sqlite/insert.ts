import type { JobState, NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { admission, type Entrance } from '../../core/traffic/admit.js'
import { holderExpiresAt } from '../../core/traffic/dedupe.js'
import { dedupeColumn, type HeldRow, makeHolders, makeReadHeld, makeTakeOver } from './dedupe.js'
import { type Doors, makeDoors } from './doors.js'
import type { Families } from './family.js'
import { guardColumn } from './guard.js'
import { listColumn } from './parse.js'
import type { Pending } from './pending.js'
import { insert as sql } from './sql.generated.js'
import { type Kind, stateName, stateNumber, type Tables } from './tables.js'
import type { Places, Traffic } from './traffic.js'

export interface Insert {
  (jobs: readonly NewJob[]): InsertResult[]
  /** Adds what a handler added: its settlement is not to fail because a queue is full. `by`: the handler's job. */
  fromHandler(jobs: readonly NewJob[], by: string | undefined): void
}

/** Who hears of new jobs. */
export interface Told {
  ready(queue: string): void
  due(delay: number): void
}

/** Adds jobs inside the current transaction. A job whose id exists is left as it stands. */
export function makeInsert(
  tables: Tables,
  traffic: Traffic,
  places: Places,
  pending: Pending,
  families: Families,
  signals: Told,
  supersede: (id: string) => void,
): Insert {
  const { db, tally, clock } = tables
  const plain = db.prepare(sql.plain)
  const child = db.prepare(sql.child)
  const full = db.prepare(sql.full)
  const ready = db.prepare(sql.ready)
  const standing = db.prepare<[string], { state: number; leased: number }>(sql.standing)
  const holders = makeHolders(tables)
  const readHeld = makeReadHeld(tables)
  const takeOver = makeTakeOver(tables, pending, families, signals)
  const makeDoorsOfInsert = makeDoors(tables, places)

  const insert = ((jobs) => {
    const doors = makeDoorsOfInsert()
    const results = insertAll(jobs, doors, undefined)
    doors.close()
    return results
  }) as Insert
  insert.fromHandler = (jobs, by) => void insertAll(jobs, undefined, by)
  return insert

  function insertAll(
    jobs: readonly NewJob[],
    doors: Doors | undefined,
    by: string | undefined,
  ): InsertResult[] {
    const run = new Run((kind, from, to) => ready.run(kind.queueId, kind.lane, from, to))
    const joining = families.joining(by)
    const now = clock.now()
    const entrance = makeEntrance(doors, run, joining, now)
    const results = jobs.map(admission(entrance, jobs))
    run.end()
    joining.end(now)
    return results
  }

  function makeEntrance(
    doors: Doors | undefined,
    run: Run,
    joining: Joining,
    now: number,
  ): Entrance<HeldRow> {
    return {
      now,
      stateOf(job) {
        // A plain job that exists shows when its row is written; others must not change anything before.
        const isPlain =
          tables.knows(job) &&
          job.dedupe === undefined &&
          job.family === undefined &&
          !takesTurns(job) &&
          doors?.of(job.queue) === undefined
        return isPlain ? undefined : standingState(job.id)
      },
      holder: holders.find,
      jobOf: readHeld,
      takeOver(held, job, how) {
        // It may have come in this very call, and must stand in line by then.
        run.end()
        takeOver(held, job, how, now)
      },
      supersede: ({ id }) => {
        run.end()
        supersede(id)
      },
      hold: (job, rule) => holders.hold(job.name, rule.key, job.id, now, holderExpiresAt(rule, now)),
      door: (queue) => doors?.of(queue),
      add: (job, dueAt) =>
        dueAt > now
          ? addLater(job, tables.kindOf(job), joining, dueAt, now)
          : addReady(job, tables.kindOf(job), joining, run, now),
      join: joining.join,
      knows: joining.knows,
      undo: joining.undo,
      addBlocked: (job) => addBlocked(job, tables.kindOf(job), joining, now),
      count: (job, what) => tally.total(tables.kindOf(job).id, what, 1),
    }
  }

  function addReady(job: NewJob, kind: Kind, joining: Joining, run: Run, now: number): InsertResult {
    if (takesTurns(job)) {
      const create = (turn: number) =>
        insertRow(job, kind, joining, 'pending', null, now, turn).lastInsertRowid as number
      traffic.enter({ job, rank: 0, seq: 0, create }, false, now)
    } else {
      const { changes, lastInsertRowid } = insertRow(job, kind, joining, 'pending', null, now, null)
      if (changes === 0) return { status: 'duplicate', state: standingState(job.id) ?? 'pending' }
      run.add(kind, lastInsertRowid as number)
    }
    count(kind, 'pending')
    signals.ready(kind.queue)
    return insertedPending
  }

  function addLater(job: NewJob, kind: Kind, joining: Joining, dueAt: number, now: number): InsertResult {
    if (insertRow(job, kind, joining, 'scheduled', dueAt, now, null).changes === 0)
      return { status: 'duplicate', state: standingState(job.id) ?? 'pending' }
    count(kind, 'scheduled')
    signals.due(dueAt - now)
    return insertedScheduled
  }

  function addBlocked(job: NewJob, kind: Kind, joining: Joining, now: number): InsertResult {
    const patience = job.family?.waits === 'open' ? job.family.patience : undefined
    const dueAt = patience === undefined ? null : now + patience
    const { lastInsertRowid } = insertRow(job, kind, joining, 'blocked', dueAt, now, null)
    joining.built(job, lastInsertRowid as number)
    count(kind, 'blocked')
    if (patience !== undefined) signals.due(patience)
    return insertedBlocked
  }

  function count(kind: Kind, state: JobState): void {
    tally.add(kind.id, state, 1)
    tally.total(kind.id, 'enqueued', 1)
  }

  function insertRow(
    job: NewJob,
    kind: Kind,
    joining: Joining,
    state: JobState,
    dueAt: number | null,
    now: number,
    turn: number | null,
  ) {
    const { overrides, tags, search, metadata, traffic: own, dedupe, guard } = job
    const kin = joining.kin(job)
    const isPlain =
      overrides === undefined &&
      tags === undefined &&
      search === undefined &&
      metadata === undefined &&
      own === undefined &&
      dedupe === undefined &&
      kin.family === null &&
      guard === undefined
    if (isPlain && state === 'pending' && turn === null) {
      if (kin.parent !== null) return child.run(job.id, kind.id, now, job.input, kin.parent)
      return plain.run(job.id, kind.id, now, job.input)
    }
    return full.run(
      job.id,
      kind.id,
      stateNumber[state],
      now,
      job.input,
      dueAt,
      overrides ?? null,
      listColumn(tags),
      metadata ?? null,
      own?.group ?? null,
      own?.key ?? null,
      own?.gated ? 1 : null,
      dedupeColumn(dedupe),
      turn,
      kin.family,
      kin.parent,
      guardColumn(guard),
      listColumn(search),
    )
  }

  /** More than its queue can hold it up. */
  function takesTurns({ name, queue, traffic: own }: NewJob): boolean {
    return own !== undefined || (tables.queueRow(queue)?.traffic === 1 && traffic.jobGate(name) !== undefined)
  }

  function standingState(id: string): JobState | undefined {
    const row = standing.get(id)
    if (row === undefined) return undefined
    return row.leased === 1 ? 'running' : stateName(row.state)
  }
}

const insertedPending: InsertResult = { status: 'inserted', state: 'pending' }
const insertedScheduled: InsertResult = { status: 'inserted', state: 'scheduled' }
const insertedBlocked: InsertResult = { status: 'inserted', state: 'blocked' }

type Joining = ReturnType<Families['joining']>

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
