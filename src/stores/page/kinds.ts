import type { NewJob } from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'
import type { GateRef } from '../../core/traffic/settings.js'
import type { Entry } from '../ledger/entry.js'
import { type Kind, type Kinds, newStates, newTotals, type Queue } from '../ledger/kind.js'
import type { Shelf } from '../ledger/shelf.js'
import type { TrafficLine } from '../ledger/traffic.js'
import type { Page } from './page.js'

export interface QueueRow {
  readonly num: number
  readonly name: string
  readonly paused: boolean
  readonly traffic: boolean
}

export interface KindRow {
  readonly num: number
  readonly queue: number
  readonly name: string
  readonly lane: number
}

/** Counts of a kind, as stored. */
export interface CountRow {
  readonly kind: number
  readonly pending: number
  readonly running: number
  readonly completed: number
  readonly dead: number
  readonly cancelled: number
}

export interface PagedQueue extends Queue {
  readonly num: number
}

export interface PagedKind extends Kind {
  readonly num: number
  readonly queue: PagedQueue
}

/** What a queue consists of. */
export interface QueueParts {
  line(queue: number, lane: number): Shelf<Entry>
  trafficLines(queue: number, lane: number): readonly TrafficLine[]
}

/** Kinds and queues are few and read as a whole. Their counts begin at 0: what they come to is what has changed. */
export class PagedKinds implements Kinds {
  readonly #page: Page
  readonly #parts: QueueParts
  readonly #queues = new Map<string, PagedQueue>()
  readonly #kinds = new Map<string, PagedKind>()
  readonly #byNum = new Map<number, PagedKind>()
  /** Those of which it counts how many run. */
  readonly counted = new Set<PagedKind>()

  constructor(page: Page, parts: QueueParts) {
    this.#page = page
    this.#parts = parts
    const byNum = new Map<number, PagedQueue>()
    for (const row of page.sheet<readonly QueueRow[]>('queues')) {
      const queue = makeQueue(row, parts)
      this.#queues.set(row.name, queue)
      byNum.set(row.num, queue)
    }
    for (const { num, queue, name, lane } of page.sheet<readonly KindRow[]>('kinds'))
      this.#add(num, byNum.get(queue) as PagedQueue, name, lane)
  }

  byNum(num: number): PagedKind {
    const kind = this.#byNum.get(num)
    if (kind !== undefined) return kind
    // Another process made it after the sheet was read.
    return this.#page.row('newKind', String(num)) as never
  }

  of({ queue, name, lane }: NewJob): PagedKind {
    const key = kindKey(queue, name, lane)
    return this.#kinds.get(key) ?? (this.#page.row('newKind', key) as never)
  }

  find(key: string): PagedKind | undefined {
    return this.#kinds.get(key)
  }

  queue(name: string): PagedQueue {
    return this.#queues.get(name) ?? (this.#page.row('newQueue', name) as never)
  }

  findQueue(name: string): PagedQueue | undefined {
    return this.#queues.get(name)
  }

  queueNames(): Iterable<string> {
    return this.#queues.keys()
  }

  *queuesOf(name: string): Generator<PagedQueue, void> {
    for (const kind of this.#kinds.values()) if (kind.name === name) yield kind.queue
  }

  concern(name: string): void {
    for (const queue of this.queuesOf(name)) queue.traffic = true
  }

  pending(queue: string): number[] {
    const lanes = new Array<number>(laneCount).fill(0)
    for (const kind of this.#kinds.values()) {
      if (kind.queue.name !== queue) continue
      const stored = this.#stored('counts', kind)?.pending ?? 0
      lanes[kind.lane] = (lanes[kind.lane] ?? 0) + stored + kind.states.pending
    }
    return lanes
  }

  running(ref: GateRef): number {
    let running = 0
    for (const kind of this.#kinds.values()) {
      if ((ref.of === 'queue' ? kind.queue.name : kind.name) !== ref.name) continue
      running += this.storedRunning(kind) + kind.states.running
      this.counted.add(kind)
    }
    return running
  }

  countOf(state: 'completed' | 'dead' | 'cancelled'): number {
    let count = 0
    for (const kind of this.#kinds.values())
      count += (this.#stored('counts', kind)?.[state] ?? 0) + kind.states[state]
    return count
  }

  /** Kinds whose counts have changed. */
  changed(): PagedKind[] {
    return [...this.#kinds.values()].filter(
      ({ states, totals }) => Object.values(states).some(isChange) || Object.values(totals).some(isChange),
    )
  }

  limitedQueues(): string[] {
    return [...this.#queues.values()].filter(({ traffic }) => traffic).map(({ name }) => name)
  }

  changedQueues(): PagedQueue[] {
    return this.#page.sheet<readonly QueueRow[]>('queues').flatMap(({ name, paused, traffic }) => {
      const queue = this.#queues.get(name) as PagedQueue
      return queue.paused === paused && queue.traffic === traffic ? [] : [queue]
    })
  }

  storedRunning(kind: PagedKind): number {
    return this.#stored('running', kind)?.running ?? 0
  }

  #stored(sheet: 'counts' | 'running', kind: PagedKind): CountRow | undefined {
    return this.#page.sheet<ReadonlyMap<number, CountRow>>(sheet).get(kind.num)
  }

  #add(num: number, queue: PagedQueue, name: string, lane: number): void {
    const line = this.#parts.line(queue.num, lane)
    const kind = { num, queue, name, lane, line, states: newStates(), totals: newTotals() }
    this.#kinds.set(kindKey(queue.name, name, lane), kind)
    this.#byNum.set(num, kind)
  }
}

export function kindKey(queue: string, name: string, lane: number): string {
  return `${lane}:${queue}:${name}`
}

/** What a key of kindKey says; neither a queue nor a definition has a colon in its name. */
export function kindIn(key: string): { queue: string; name: string; lane: number } {
  const [lane, queue = '', name = ''] = key.split(':')
  return { queue, name, lane: Number(lane) }
}

function makeQueue({ num, name, paused, traffic }: QueueRow, parts: QueueParts): PagedQueue {
  const lanes = Array.from({ length: laneCount }, (_, lane) => lane)
  return {
    num,
    name,
    paused,
    traffic,
    lines: lanes.map((lane) => parts.line(num, lane)),
    trafficLines: (lane) => parts.trafficLines(num, lane),
  }
}

function isChange(count: number): boolean {
  return count !== 0
}
