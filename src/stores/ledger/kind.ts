import type { JobState, NewJob } from '../../core/job.js'
import type { TotalName } from '../../core/lifecycle.js'
import type { GateRef } from '../../core/traffic/settings.js'
import type { Entry } from './entry.js'
import type { Shelf } from './shelf.js'
import type { TrafficLine } from './traffic.js'

/** What jobs of one name in one lane have in common: the line that they wait in, and their counts. */
export interface Kind {
  readonly queue: Queue
  readonly name: string
  readonly lane: number
  /** The pending jobs of its queue and lane, those of other kinds among them. */
  readonly line: Shelf<Entry>
  readonly states: Record<JobState, number>
  readonly totals: Record<TotalName, number>
}

export interface Queue {
  readonly name: string
  paused: boolean
  /** By lane, in the order of lanes. */
  readonly lines: readonly Shelf<Entry>[]
  /** Something besides its pause may hold up its jobs; see traffic.ts. */
  traffic: boolean
  /** Lines of jobs with limits or groups, in the order in which they came. */
  trafficLines(lane: number): readonly TrafficLine[]
}

export interface Kinds {
  of(job: NewJob): Kind
  /** Made on first use. */
  queue(name: string): Queue
  findQueue(name: string): Queue | undefined
  /** Of all that were ever used. */
  queueNames(): Iterable<string>
  /** Queues that have, or had, jobs of this definition. */
  queuesOf(name: string): Iterable<Queue>
  /** A definition has limits: the queues that have such jobs, now or later, must know. */
  concern(name: string): void
  /** Ready jobs of a queue, by lane. */
  pending(queue: string): number[]
  /** Jobs of a queue or a definition that run. */
  running(ref: GateRef): number
}

export function newStates(): Record<JobState, number> {
  return {
    scheduled: 0,
    pending: 0,
    running: 0,
    retrying: 0,
    blocked: 0,
    completed: 0,
    dead: 0,
    cancelled: 0,
  }
}

export function newTotals(): Record<TotalName, number> {
  return {
    enqueued: 0,
    completed: 0,
    failed: 0,
    retried: 0,
    dead: 0,
    cancelled: 0,
    crashed: 0,
    pruned: 0,
    shed: 0,
    deferred: 0,
  }
}
