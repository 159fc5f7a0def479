import type { JobState, NewJob } from '../../core/job.js'
import type { TotalName } from '../../core/lifecycle.js'
import type { Entry } from './entry.js'
import { Sorted } from './sorted.js'
import type { TrafficLine } from './traffic.js'

/** What jobs of one name in one lane have in common: the line that they wait in, and their counts. */
export interface Kind {
  readonly queue: Queue
  readonly name: string
  readonly lane: number
  /** The pending jobs of its queue and lane, those of other kinds among them. */
  readonly line: Sorted<Entry>
  readonly states: Record<JobState, number>
  readonly totals: Record<TotalName, number>
}

export interface Queue {
  /** Queues are listed in the order in which they came. */
  readonly num: number
  readonly name: string
  paused: boolean
  /** By lane, in the order of lanes. */
  readonly lines: Sorted<Entry>[]
  /** Something besides its pause may hold up its jobs; see traffic.ts. */
  traffic: boolean
  /** Lines of jobs with limits or groups, by lane, in the order in which they came. */
  readonly trafficLines: TrafficLine[][]
}

export class Kinds {
  readonly queues = new Map<string, Queue>()
  readonly #kinds = new Map<string, Kind>()
  /** Definitions with limits: a queue that gets such a kind must know. */
  readonly limited = new Set<string>()
  #last: Kind | undefined

  all(): IterableIterator<Kind> {
    return this.#kinds.values()
  }

  /** Jobs come in runs of the same kind, so the last one is likely the one. */
  of(job: NewJob): Kind {
    const last = this.#last
    if (last?.name === job.name && last.lane === job.lane && last.queue.name === job.queue) return last
    const key = `${job.lane}:${job.queue}:${job.name}`
    let kind = this.#kinds.get(key)
    if (kind === undefined) {
      kind = makeKind(this.queue(job.queue), job.name, job.lane)
      if (this.limited.has(job.name)) kind.queue.traffic = true
      this.#kinds.set(key, kind)
    }
    this.#last = kind
    return kind
  }

  queue(name: string): Queue {
    let queue = this.queues.get(name)
    if (queue === undefined) {
      queue = { num: this.queues.size, name, paused: false, lines: [], traffic: false, trafficLines: [] }
      this.queues.set(name, queue)
    }
    return queue
  }
}

function makeKind(queue: Queue, name: string, lane: number): Kind {
  while (queue.lines.length <= lane) {
    queue.lines.push(new Sorted())
    queue.trafficLines.push([])
  }
  return {
    queue,
    name,
    lane,
    line: queue.lines[lane] as Sorted<Entry>,
    states: {
      scheduled: 0,
      pending: 0,
      running: 0,
      retrying: 0,
      blocked: 0,
      completed: 0,
      dead: 0,
      cancelled: 0,
    },
    totals: {
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
    },
  }
}
