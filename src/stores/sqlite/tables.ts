import type { Clock } from '../../core/clock.js'
import type { NewFamily } from '../../core/family.js'
import { type JobState, jobStates, type NewJob } from '../../core/job.js'
import { type TotalName, totalNames } from '../../core/lifecycle.js'
import type { Database } from '../../databases/sqlite/connection.js'
import { tables as sql } from './sql.generated.js'

/** What jobs that were enqueued alike have in common. */
export interface Kind {
  readonly id: number
  readonly queueId: number
  readonly queue: string
  readonly lane: number
  readonly name: string
  readonly maxAttempts: number
  readonly maxCrashes: number
  /** What its jobs may have; see `traits`. */
  readonly traits: number
}

export interface QueueRow {
  readonly id: number
  readonly paused: number
  /** Something besides its pause may hold up its jobs. */
  readonly traffic: number
}

/** Stands in for a kind that a damaged file has lost, so that one row does not stop the others. */
const damaged = {
  queueId: 0,
  queue: 'damaged',
  lane: 0,
  name: 'damaged',
  maxAttempts: 1,
  maxCrashes: 1,
  traits: 0,
}

type KindFields = Pick<NewJob, 'name' | 'queue' | 'lane' | 'maxAttempts' | 'maxCrashes'> &
  Partial<Pick<NewJob, 'family' | 'guard' | 'unwinds'>> & { readonly traits?: number }

/** What a kind's jobs may have. */
export const traits = { family: 1, guard: 2, unwinds: 4, parent: 8, parents: 16, stays: 32 } as const

function traitsOf(job: KindFields): number {
  if (job.traits !== undefined) return job.traits
  return (
    familyTraits(job.family) |
    (job.guard === undefined ? 0 : traits.guard) |
    (job.unwinds === true ? traits.unwinds : 0)
  )
}

function familyTraits(family: NewFamily | undefined): number {
  if (family === undefined) return 0
  const waits = family.waits === 'no' ? 0 : traits.parent
  const parents = family.parents.length > 1 ? traits.parents : 0
  return traits.family | waits | parents | (family.stays === true ? traits.stays : 0)
}

/** Jobs of this kind undo what they did when they are cancelled. */
export function unwinds(kind: Kind): boolean {
  return (kind.traits & traits.unwinds) !== 0
}

/** Jobs of this kind are kept until their flow is over. */
export function stays(kind: Kind): boolean {
  return (kind.traits & traits.stays) !== 0
}

export const stateNumber = Object.fromEntries(jobStates.map((state, i) => [state, i])) as Record<
  JobState,
  number
>

const stateNames = Object.keys(stateNumber) as JobState[]

export function stateName(number: number): JobState {
  return stateNames[number] as JobState
}

/**
 * The small tables that every verb needs, over one connection: names become numbers, and counts are summed
 * up until the end of the transaction. Numbers learned in a transaction that was rolled back are forgotten.
 */
export class Tables {
  readonly db: Database
  readonly clock: Clock
  /** By this process; what is known of kinds may be old when it has changed. */
  kindsAdded = 0
  readonly tally: Tally
  #kindsById = new Map<number, Kind>()
  #kindsByKey = new Map<string, Kind>()
  #last: Kind | undefined
  #workers = new Map<string, number>()
  /** Read in the current transaction. */
  readonly #queues = new Map<string, QueueRow>()
  readonly #queue
  readonly #addQueue
  readonly #pause
  readonly #kind
  readonly #addKind
  readonly #worker
  readonly #concern

  constructor(db: Database, clock: Clock) {
    this.db = db
    this.clock = clock
    this.tally = new Tally(db)
    this.#queue = db.prepare<[string], QueueRow>(sql.queue)
    this.#addQueue = db.prepare<[string], number>(sql.addQueue).pluck()
    this.#pause = db.prepare(sql.pause)
    this.#kind = db.prepare<[number], Kind>(sql.kind)
    this.#addKind = db.prepare<[number, number, string, number, number, number], number>(sql.addKind).pluck()
    this.#worker = db.prepare<[string], { num: number; expires_at: number }>(sql.worker)
    this.#concern = db.prepare(sql.concern)
  }

  forget(): void {
    this.#kindsById.clear()
    this.#kindsByKey.clear()
    this.#workers.clear()
    this.#last = undefined
    this.#queues.clear()
    this.tally.forget()
  }

  /** The last thing a transaction does. */
  write(): void {
    this.tally.write()
    this.#queues.clear()
  }

  /** Whether it has met jobs of this kind: then their queue knows what may hold them up. */
  knows(job: KindFields): boolean {
    return this.#known(job) !== undefined
  }

  kindOf(job: KindFields): Kind {
    let kind = this.#known(job)
    if (kind === undefined) {
      const queueId = this.#addQueue.get(job.queue) as number
      const { lane, name, maxAttempts, maxCrashes } = job
      const id = this.#addKind.get(queueId, lane, name, maxAttempts, maxCrashes, traitsOf(job)) as number
      this.#concern.run(id, job.name)
      this.kindsAdded++
      this.#queues.clear()
      kind = this.kind(id)
      this.#kindsByKey.set(keyOf(job), kind)
    }
    this.#last = kind
    return kind
  }

  #known(job: KindFields): Kind | undefined {
    const last = this.#last
    const isLast =
      last !== undefined &&
      last.name === job.name &&
      last.queue === job.queue &&
      last.lane === job.lane &&
      last.maxAttempts === job.maxAttempts &&
      last.maxCrashes === job.maxCrashes &&
      last.traits === traitsOf(job)
    return isLast ? last : this.#kindsByKey.get(keyOf(job))
  }

  kind(id: number): Kind {
    let kind = this.#kindsById.get(id)
    if (kind === undefined) {
      kind = this.#kind.get(id) ?? { ...damaged, id }
      this.#kindsById.set(id, kind)
    }
    return kind
  }

  /** Undefined for a queue that never had a job nor settings. */
  queueRow(name: string): QueueRow | undefined {
    const known = this.#queues.get(name)
    if (known !== undefined) return known
    const row = this.#queue.get(name)
    if (row !== undefined && this.db.inTransaction) this.#queues.set(name, row)
    return row
  }

  addQueue(name: string): void {
    this.#addQueue.get(name)
  }

  /** Rows of queues have changed. */
  forgetQueues(): void {
    this.#queues.clear()
  }

  pause(queue: string, paused: boolean): void {
    this.addQueue(queue)
    this.#pause.run(paused ? 1 : 0, queue)
    this.forgetQueues()
  }

  /**
   * Numbers of this process's own workers are remembered. Those of others are looked up: a worker that was
   * given up and came back has a new one.
   */
  workerNumber(id: string): number | undefined {
    return this.#workers.get(id) ?? this.#worker.get(id)?.num
  }

  rememberWorker(id: string, num: number): void {
    this.#workers.set(id, num)
  }

  workerIsAlive(id: string, now: number): boolean {
    const row = this.#worker.get(id)
    return row !== undefined && row.expires_at > now
  }
}

/** Columns of the tally: the states, then the totals. */
const columns = [...jobStates, ...totalNames.map((name) => `total.${name}`)]
const totalNumber = Object.fromEntries(totalNames.map((name, i) => [name, jobStates.length + i])) as Record<
  TotalName,
  number
>

/** Counts by kind, summed in memory and written once per transaction. */
class Tally {
  #deltas = new Map<number, Int32Array>()
  readonly #count

  constructor(db: Database) {
    this.#count = db.prepare(sql.count)
  }

  /** `n` more jobs of a kind are in `state`. */
  add(kind: number, state: JobState, n: number): void {
    this.#bump(kind, stateNumber[state], n)
  }

  total(kind: number, name: TotalName, n: number): void {
    this.#bump(kind, totalNumber[name], n)
  }

  move(kind: number, from: JobState, to: JobState, n: number): void {
    this.add(kind, from, -n)
    this.add(kind, to, n)
  }

  /** What this transaction has changed so far, over the kinds that match. */
  change(state: JobState, matches: (kind: number) => boolean): number {
    let change = 0
    for (const [kind, row] of this.#deltas) if (matches(kind)) change += row[stateNumber[state]] as number
    return change
  }

  #bump(kind: number, column: number, n: number): void {
    let row = this.#deltas.get(kind)
    if (row === undefined) {
      row = new Int32Array(columns.length)
      this.#deltas.set(kind, row)
    }
    row[column] = (row[column] as number) + n
  }

  /** The last thing a transaction does. */
  write(): void {
    for (const [kind, row] of this.#deltas) {
      row.forEach((n, i) => {
        if (n !== 0) this.#count.run(kind, columns[i], n)
      })
    }
    this.#deltas.clear()
  }

  forget(): void {
    this.#deltas.clear()
  }
}

function keyOf(job: KindFields): string {
  const { name, queue, lane, maxAttempts, maxCrashes } = job
  return `${name}:${queue}:${lane}:${maxAttempts}:${maxCrashes}:${traitsOf(job)}`
}
