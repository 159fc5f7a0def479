import type { NewJob } from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'
import type { GateRef } from '../../core/traffic/settings.js'
import type { Entry } from '../ledger/entry.js'
import { type Kind, type Kinds, newStates, newTotals, type Queue } from '../ledger/kind.js'
import { Sorted } from '../ledger/sorted.js'
import type { TrafficLine } from '../ledger/traffic.js'

export interface MemoryQueue extends Queue {
  /** Queues are listed in the order in which they came. */
  readonly num: number
  readonly lines: Sorted<Entry>[]
  /** By lane. */
  readonly gated: TrafficLine[][]
}

interface MemoryKind extends Kind {
  readonly queue: MemoryQueue
}

export class MemoryKinds implements Kinds {
  readonly queues = new Map<string, MemoryQueue>()
  readonly #kinds = new Map<string, MemoryKind>()
  /** Definitions with limits: a queue that gets such a kind must know. */
  readonly #limited = new Set<string>()
  #last: MemoryKind | undefined

  all(): IterableIterator<Kind> {
    return this.#kinds.values()
  }

  /** Jobs come in runs of the same kind, so the last one is likely the one. */
  of(job: NewJob): MemoryKind {
    const last = this.#last
    if (last?.name === job.name && last.lane === job.lane && last.queue.name === job.queue) return last
    const key = `${job.lane}:${job.queue}:${job.name}`
    let kind = this.#kinds.get(key)
    if (kind === undefined) {
      kind = makeKind(this.queue(job.queue), job.name, job.lane)
      if (this.#limited.has(job.name)) kind.queue.traffic = true
      this.#kinds.set(key, kind)
    }
    this.#last = kind
    return kind
  }

  queue(name: string): MemoryQueue {
    let queue = this.queues.get(name)
    if (queue === undefined) {
      queue = makeQueue(this.queues.size, name)
      this.queues.set(name, queue)
    }
    return queue
  }

  findQueue(name: string): MemoryQueue | undefined {
    return this.queues.get(name)
  }

  queueNames(): Iterable<string> {
    return this.queues.keys()
  }

  *queuesOf(name: string): Generator<MemoryQueue, void> {
    for (const kind of this.#kinds.values()) if (kind.name === name) yield kind.queue
  }

  concern(name: string): void {
    this.#limited.add(name)
    for (const queue of this.queuesOf(name)) queue.traffic = true
  }

  pending(queue: string): number[] {
    const lanes = new Array<number>(laneCount).fill(0)
    for (const kind of this.#kinds.values()) {
      if (kind.queue.name === queue) lanes[kind.lane] = (lanes[kind.lane] ?? 0) + kind.states.pending
    }
    return lanes
  }

  running(ref: GateRef): number {
    let running = 0
    for (const kind of this.#kinds.values()) {
      if ((ref.of === 'queue' ? kind.queue.name : kind.name) === ref.name) running += kind.states.running
    }
    return running
  }
}

function makeQueue(num: number, name: string): MemoryQueue {
  const gated: TrafficLine[][] = []
  const trafficLines = (lane: number) => gated[lane] ?? []
  return { num, name, paused: false, lines: [], traffic: false, gated, trafficLines }
}

function makeKind(queue: MemoryQueue, name: string, lane: number): MemoryKind {
  while (queue.lines.length <= lane) {
    queue.lines.push(new Sorted())
    queue.gated.push([])
  }
  const line = queue.lines[lane] as Sorted<Entry>
  return { queue, name, lane, line, states: newStates(), totals: newTotals() }
}
