import type { Clock } from '../../core/clock.js'
import type { FinalState, JobState, LogLine, NewJob } from '../../core/job.js'
import type { JobQuery, LeasedJob } from '../../core/store.js'
import type { Causes } from './causes.js'
import type { Holders } from './dedupe.js'
import { Entry } from './entry.js'
import type { Guards } from './guard.js'
import type { Kinds } from './kind.js'
import type { Links } from './parenthood.js'
import type { Schedules } from './schedule.js'
import type { Book, Shelf } from './shelf.js'
import type { Mailbox } from './signal.js'
import type { Steps } from './steps.js'
import type { Signals } from './subscribe.js'
import type { Surplus } from './surplus.js'
import type { Places, Traffic } from './traffic.js'
import type { Waiters } from './waiting.js'
import type { Lease, Worker, Workers } from './worker.js'

/** A state whose jobs are on a shelf of their own. */
export type ShelvedState = Exclude<JobState, 'pending' | 'running'>

export interface Selection {
  readonly entries: readonly Entry[]
  readonly cursor: string | undefined
}

/**
 * All that the verbs of an engine work on. A job is in `jobs` and in exactly one other place, by its state: pending in
 * its kind's line or where traffic control keeps it, running in its worker's hold, any other on the shelf of the state.
 * `enter` and `leave` keep places and counts in step.
 */
export abstract class Tables {
  readonly clock: Clock
  abstract readonly signals: Signals
  abstract readonly jobs: Book<Entry>
  abstract readonly kinds: Kinds
  abstract readonly workers: Workers
  abstract readonly causes: Causes
  /** Keys of jobs that are deduped. */
  abstract readonly holders: Holders
  /** Idempotency keys. */
  abstract readonly guards: Guards
  abstract readonly surplus: Surplus
  abstract readonly schedules: Schedules
  /** Signals that are kept, and the blocked jobs that wait for some. */
  abstract readonly mailbox: Mailbox
  abstract readonly waiters: Waiters
  abstract readonly places: Places
  abstract readonly traffic: Traffic
  abstract readonly shelves: Readonly<Record<ShelvedState, Shelf<Entry>>>
  /** Cancelled jobs whose children are to be cancelled. */
  abstract readonly doomed: Doomed

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** Called before anything of a verb is written, so that a full store refuses all of it. */
  abstract needRoom(count: number): void
  abstract nextSeq(): number
  /** How many there are on a shelf of finished jobs. */
  abstract countOf(state: FinalState): number
  abstract select(query: JobQuery): Selection
  abstract addLogs(entry: Entry, lines: readonly LogLine[]): void
  abstract newSteps(entry: Entry): Steps
  abstract newLinks(entry: Entry): Links
  /** Keys, with the names of their definitions, of running jobs that give way to newer ones; see dedupe.ts. */
  abstract keysOfRunning(): ReadonlySet<string>

  /** Does the same for each; an engine may go on with the others when it lacks something for one, and do all again. */
  each<T>(items: Iterable<T>, work: (item: T) => void): void {
    for (const item of items) work(item)
  }

  /** A new job, not yet in any state. */
  add(job: NewJob, now: number): Entry {
    const entry = new Entry(this.nextSeq(), job, this.kinds.of(job), now)
    this.jobs.set(job.id, entry)
    return entry
  }

  /** The guard of every write under a lease. */
  isHeld(entry: Entry | undefined, worker: Worker, token: string): entry is Entry {
    const lease = entry?.lease
    return lease !== undefined && lease.worker === worker && this.tokenOf(entry as Entry, lease) === token
  }

  /** What its worker has to present. */
  tokenOf(_entry: Entry, lease: Lease): string {
    return lease.token
  }

  /** The claim that a worker's job came with, by what it presents; undefined for a token of another job. */
  claimOf({ token }: LeasedJob): string | undefined {
    return token
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
}

export interface Doomed extends Iterable<Entry> {
  add(entry: Entry): void
  delete(entry: Entry): void
}

/** It has run before. */
function comesBack(from: JobState): boolean {
  return from === 'running' || from === 'retrying' || from === 'blocked'
}
