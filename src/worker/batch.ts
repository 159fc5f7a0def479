import type { CompiledBatch } from '../core/batch.js'
import { bounds } from '../core/bounds.js'
import type { Clock } from '../core/clock.js'
import type { AnyJob } from '../core/definition.js'
import type { ClaimedJob } from '../core/job.js'
import { laneCount } from '../core/lanes.js'
import { runsAlone } from '../core/lifecycle.js'

/** Jobs that one call will run, all of one definition, one lane and one key. */
export interface Batch {
  readonly definition: AnyJob
  readonly lane: number
  readonly key: string
  readonly jobs: ClaimedJob[]
  /** Monotonic time until which it waits for more. */
  readonly dueAt: number
  /** Which answer of the store opened it. */
  readonly answer: number
}

/** The open batches of one definition and lane, by key. All wait equally long, so the first is due first. */
interface Line {
  readonly definition: AnyJob
  readonly options: CompiledBatch
  readonly lane: number
  readonly open: Map<string, Batch>
}

export interface BatchPartner {
  /** What a job must share with its batch, or undefined for one that has to run by itself. */
  keyOf(definition: AnyJob, job: ClaimedJob): string | undefined
  /** A batch has waited long enough. */
  due(): void
}

/** A batch that does not wait is kept this long for a claim that is on its way and may fill it. */
const claimMs = 10

/**
 * Collects claimed jobs into batches. A batch is open until it starts or has `size` jobs, and due when it is
 * full or has waited for `wait`; one that is due and finds no slot still takes jobs. Lanes do not mix, because
 * slots are counted, and may be reserved, by lane.
 *
 * What is collected is bounded by `bounds.collected`, and so is the number of batches: beyond it nothing is
 * claimed for batches, and the oldest of them are due at once.
 */
export class Batches {
  readonly #clock: Clock
  readonly #partner: BatchPartner
  /** By definition, then by lane. */
  readonly #lines = new Map<string, readonly Line[]>()
  /** Batches that lack nothing, the oldest first. */
  readonly #full: Batch[] = []
  #size = 0
  #lacking = 0
  #answers = 0
  #armedFor = Number.POSITIVE_INFINITY
  #disarm: (() => void) | undefined
  /** The time of the last timer that fired: it may have been a fraction of a millisecond early. */
  #passed = 0

  constructor(clock: Clock, jobs: ReadonlyMap<string, AnyJob>, partner: BatchPartner) {
    this.#clock = clock
    this.#partner = partner
    for (const definition of jobs.values()) {
      const { name, batch: options } = definition
      if (options === undefined) continue
      this.#lines.set(
        name,
        Array.from({ length: laneCount }, (_, lane) => ({ definition, options, lane, open: new Map() })),
      )
    }
  }

  /** Jobs in all batches that have not started. */
  get size(): number {
    return this.#size
  }

  /** Those in batches that are full and wait for a slot only. */
  get complete(): number {
    return this.#full.reduce((sum, batch) => sum + batch.jobs.length, 0)
  }

  /** Jobs that the open batches could still take. */
  get lacking(): number {
    return this.#lacking
  }

  /** Monotonic time when the next batch is due. */
  get dueAt(): number | undefined {
    if (this.#size === 0) return undefined
    return this.#full.length > 0 ? this.#now() : Math.min(...this.#firsts().map((batch) => batch.dueAt))
  }

  /** How many jobs a slot takes, on average over these. */
  width(claimed: readonly ClaimedJob[]): number {
    if (this.#lines.size === 0 || claimed.length === 0) return 1
    const sizes = claimed.map((job) => this.#lineOf(job)?.options.size ?? 1)
    return sizes.reduce((sum, size) => sum + size, 0) / claimed.length
  }

  /** Takes its share of what the store answered, and returns the rest. `more`: the store may have more. */
  collect(claimed: readonly ClaimedJob[], more: boolean): readonly ClaimedJob[] {
    if (this.#lines.size === 0) return claimed
    this.#answers++
    const others = claimed.filter((job) => !this.#add(job, more))
    this.#arm()
    return others
  }

  /** The oldest batch that is due and whose lane may start. */
  next(mayStart: (lane: number) => boolean): Batch | undefined {
    if (this.#size === 0) return undefined
    const due = this.#full.filter((batch) => mayStart(batch.lane)).slice(0, 1)
    for (const line of this.#allLines()) {
      const first = firstOf(line)
      if (first !== undefined && this.#isDue(first, line) && mayStart(line.lane)) due.push(first)
    }
    return due.reduce((first, batch) => (goesFirst(batch, first) ? batch : first), due[0] as Batch)
  }

  /** The batch starts and takes no more. */
  take(batch: Batch): void {
    this.#forget(batch)
    this.#size -= batch.jobs.length
    this.#arm()
  }

  /** Takes single jobs out. */
  remove(which: (job: ClaimedJob) => boolean): ClaimedJob[] {
    if (this.#size === 0) return []
    const removed = [...this.#all()].flatMap((batch) => this.#removeFrom(batch, which))
    this.#arm()
    return removed
  }

  *jobs(): Iterable<ClaimedJob> {
    for (const batch of this.#all()) yield* batch.jobs
  }

  stop(): void {
    this.#disarm?.()
    this.#armedFor = Number.NEGATIVE_INFINITY
  }

  #add(job: ClaimedJob, more: boolean): boolean {
    const line = this.#lineOf(job)
    if (line === undefined || runsAlone(job)) return false
    const key = this.#partner.keyOf(line.definition, job)
    if (key === undefined) return false
    const batch = line.open.get(key) ?? this.#open(line, key, more)
    batch.jobs.push(job)
    this.#size++
    this.#lacking--
    if (batch.jobs.length === line.options.size) {
      line.open.delete(key)
      this.#full.push(batch)
    }
    return true
  }

  #open({ definition, options, lane, open }: Line, key: string, more: boolean): Batch {
    const wait = options.wait === 0 && more ? claimMs : options.wait
    const batch = { definition, lane, key, jobs: [], dueAt: this.#now() + wait, answer: this.#answers }
    open.set(key, batch)
    this.#lacking += options.size
    return batch
  }

  #isDue(batch: Batch, { options }: Line): boolean {
    if (batch.dueAt <= this.#now() || this.#size > bounds.collected) return true
    // It does not wait, and the answer that could have filled it has come.
    return options.wait === 0 && batch.answer < this.#answers
  }

  #removeFrom(batch: Batch, which: (job: ClaimedJob) => boolean): ClaimedJob[] {
    const gone = batch.jobs.filter(which)
    if (gone.length === 0) return gone
    if (gone.length === batch.jobs.length) this.#forget(batch)
    else if (!this.#full.includes(batch)) this.#lacking += gone.length
    const left = batch.jobs.filter((job) => !which(job))
    batch.jobs.splice(0, batch.jobs.length, ...left)
    this.#size -= gone.length
    return gone
  }

  #forget(batch: Batch): void {
    const place = this.#full.indexOf(batch)
    if (place >= 0) return void this.#full.splice(place, 1)
    const line = this.#lineOf(batch.jobs[0] as ClaimedJob) as Line
    line.open.delete(batch.key)
    this.#lacking -= line.options.size - batch.jobs.length
  }

  *#all(): Iterable<Batch> {
    yield* this.#full
    for (const { open } of this.#allLines()) yield* open.values()
  }

  *#allLines(): Iterable<Line> {
    for (const lines of this.#lines.values()) yield* lines
  }

  #lineOf({ name, lane }: ClaimedJob): Line | undefined {
    return this.#lines.get(name)?.[lane]
  }

  #firsts(): Batch[] {
    return [...this.#allLines()].map(firstOf).filter((batch) => batch !== undefined)
  }

  /** One timer, for the next batch that will be due. Whoever takes one that is due already looks again. */
  #arm(): void {
    const now = this.#now()
    const times = this.#firsts().map((batch) => batch.dueAt)
    const next = Math.min(...times.filter((dueAt) => dueAt > now))
    if (next >= this.#armedFor) return
    this.#disarm?.()
    this.#armedFor = next
    this.#disarm = this.#clock.after(next - now, () => this.#fire(next))
  }

  #fire(time: number): void {
    this.#armedFor = Number.POSITIVE_INFINITY
    this.#passed = time
    this.#partner.due()
    this.#arm()
  }

  #now(): number {
    return Math.max(this.#clock.monotonic(), this.#passed)
  }
}

function firstOf({ open }: Line): Batch | undefined {
  return open.size === 0 ? undefined : open.values().next().value
}

/**
 * In the order of their claims, so that neither batches nor single jobs keep the others from a slot for ever; in
 * the order of their lanes when one claim brought them.
 */
export function goesFirst(batch: Batch, other: Batch | ClaimedJob): boolean {
  const earlier = claimedAt(other) - claimedAt(batch)
  return earlier > 0 || (earlier === 0 && batch.lane < other.lane)
}

function claimedAt(of: Batch | ClaimedJob): number {
  return 'jobs' in of ? (of.jobs[0] as ClaimedJob).startedAt : of.startedAt
}
