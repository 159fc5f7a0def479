import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { JobState, NewJob } from '../../core/job.js'
import { TrafficControl } from '../../core/traffic/control.js'
import { Causes } from './causes.js'
import { Holders } from './dedupe.js'
import { Entry } from './entry.js'
import { Guards } from './guard.js'
import { Kinds } from './kind.js'
import { Schedules } from './schedule.js'
import { Mailbox } from './signal.js'
import { Sorted } from './sorted.js'
import { Signals } from './subscribe.js'
import { Surplus } from './surplus.js'
import { type ParkingGate, Places, type Traffic, type TrafficLine } from './traffic.js'
import { Waiters } from './waiting.js'
import { Worker } from './worker.js'

/** V8 gives a Map up to 2^24 slots, and one with more than half of them in use may fail to grow. */
const mostJobs = 2 ** 23

/**
 * All there is. A job is in `jobs` and in exactly one other place, by its state: pending in its kind's line or
 * where traffic control keeps it, running in its worker's hold, any other on the shelf of the state. `enter` and `leave` keep places and
 * counts in step.
 */
export class Tables {
  readonly clock: Clock
  readonly signals = new Signals()
  readonly jobs = new Map<string, Entry>()
  readonly kinds = new Kinds()
  readonly workers = new Map<string, Worker>()
  readonly causes = new Causes()
  /** Keys of jobs that are deduped. */
  readonly holders = new Holders()
  /** Idempotency keys. */
  readonly guards = new Guards()
  readonly surplus = new Surplus()
  readonly schedules = new Schedules()
  /** Signals that are kept, and the blocked jobs that wait for some. */
  readonly mailbox = new Mailbox()
  readonly waiters = new Waiters()
  readonly places = new Places(this.kinds, this.signals)
  readonly traffic: Traffic = new TrafficControl<Entry, TrafficLine, ParkingGate>(this.places)
  readonly shelves: Record<Exclude<JobState, 'pending' | 'running'>, Sorted<Entry>> = {
    scheduled: new Sorted(),
    retrying: new Sorted(),
    blocked: new Sorted(),
    completed: new Sorted(),
    dead: new Sorted(),
    cancelled: new Sorted(),
  }
  /** Cancelled jobs whose children are to be cancelled. */
  readonly doomed = new Set<Entry>()
  #seq = 0
  #workers = 0

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** Called before anything of a verb is written, so that a full store refuses all of it. */
  needRoom(count: number): void {
    if (this.jobs.size + count > mostJobs) {
      throw new MillraceError(
        'STORE_FULL',
        `the memory store holds ${this.jobs.size} jobs and cannot take ${count} more; ` +
          'keep finished ones for a shorter time, or use another engine',
        { field: 'jobs', value: this.jobs.size + count, limit: mostJobs },
      )
    }
  }

  /** A new job, not yet in any state. */
  add(job: NewJob, now: number): Entry {
    const entry = new Entry(++this.#seq, job, this.kinds.of(job), now)
    this.jobs.set(job.id, entry)
    return entry
  }

  enter(entry: Entry, state: Exclude<JobState, 'running'>, rank: number): void {
    if (state === 'pending') return this.#enterLine(entry)
    entry.state = state
    entry.rank = rank
    entry.kind.states[state]++
    this.shelves[state].add(entry)
  }

  #enterLine(entry: Entry): void {
    const { kind, state } = entry
    entry.state = 'pending'
    entry.rank = 0
    kind.states.pending++
    if (this.isPlain(entry)) kind.line.add(entry)
    else this.traffic.enter(entry, comesBack(state), this.clock.now())
    this.signals.ready(kind.queue.name)
  }

  /** Nothing but its queue can hold it up. */
  isPlain({ job, kind }: Entry): boolean {
    return job.traffic === undefined && (!kind.queue.traffic || this.traffic.jobGate(kind.name) === undefined)
  }

  leave(entry: Entry): void {
    const { state, kind, lease } = entry
    if (state === 'running') {
      kind.states.running--
      lease?.drop(entry)
    } else if (state === 'pending') {
      kind.states.pending--
      if (entry.story?.place === undefined) kind.line.delete(entry)
      else this.traffic.leave(entry, this.clock.now())
    } else {
      kind.states[state]--
      this.shelves[state].delete(entry)
      if (state === 'dead') this.causes.delete(entry)
      if (state === 'blocked') this.waiters.delete(entry)
    }
  }

  /** Renews a worker's lease; one that was given up starts anew. */
  renew(id: string, expiresAt: number): Worker {
    let worker = this.workers.get(id)
    if (worker === undefined) {
      worker = new Worker(this.#workers++, id, expiresAt)
      this.workers.set(id, worker)
    }
    worker.expiresAt = expiresAt
    return worker
  }
}

/** It has run before. */
function comesBack(from: JobState): boolean {
  return from === 'running' || from === 'retrying' || from === 'blocked'
}
