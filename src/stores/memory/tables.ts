import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import type { JobState, NewJob } from '../../core/job.js'
import { Causes } from './causes.js'
import { Entry } from './entry.js'
import { Kinds } from './kind.js'
import { Sorted } from './sorted.js'
import { Signals } from './subscribe.js'
import { Worker } from './worker.js'

/** V8 gives a Map up to 2^24 slots, and one with more than half of them in use may fail to grow. */
const mostJobs = 2 ** 23

/**
 * All there is. A job is in `jobs` and in exactly one other place, by its state: pending in its kind's line,
 * running in its worker's hold, any other on the shelf of the state. `enter` and `leave` keep places and
 * counts in step.
 */
export class Tables {
  readonly clock: Clock
  readonly signals = new Signals()
  readonly jobs = new Map<string, Entry>()
  readonly kinds = new Kinds()
  readonly workers = new Map<string, Worker>()
  readonly causes = new Causes()
  readonly shelves: Record<Exclude<JobState, 'pending' | 'running'>, Sorted<Entry>> = {
    scheduled: new Sorted(),
    retrying: new Sorted(),
    blocked: new Sorted(),
    completed: new Sorted(),
    dead: new Sorted(),
    cancelled: new Sorted(),
  }
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
    entry.state = state
    entry.rank = rank
    if (state === 'pending') {
      entry.kind.states.pending++
      entry.kind.line.add(entry)
      this.signals.ready(entry.kind.queue.name)
    } else {
      entry.kind.states[state]++
      this.shelves[state].add(entry)
    }
  }

  leave(entry: Entry): void {
    const { state, kind, lease } = entry
    if (state === 'running') {
      kind.states.running--
      lease?.drop(entry)
    } else if (state === 'pending') {
      kind.states.pending--
      kind.line.delete(entry)
    } else {
      kind.states[state]--
      this.shelves[state].delete(entry)
      if (state === 'dead') this.causes.delete(entry)
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
