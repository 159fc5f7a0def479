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

/** The rows of both sheets, by what they are looked for. */
interface Index {
  readonly queues: readonly QueueRow[]
  readonly kinds: readonly KindRow[]
  readonly queueByName: ReadonlyMap<string, QueueRow>
  readonly queueByNum: ReadonlyMap<number, QueueRow>
  readonly kindByKey: ReadonlyMap<string, KindRow>
  readonly kindByNum: ReadonlyMap<number, KindRow>
  readonly kindsByName: ReadonlyMap<string, readonly KindRow[]>
  readonly kindsByQueue: ReadonlyMap<number, readonly KindRow[]>
}

/** Tries of a verb, and pages for which an engine knows that nothing has changed, have the same rows. */
const indexes = new WeakMap<readonly KindRow[], Index>()

function indexOf(queues: readonly QueueRow[], kinds: readonly KindRow[]): Index {
  const known = indexes.get(kinds)
  if (known?.queues === queues) return known
  const queueByNum = new Map(queues.map((row) => [row.num, row]))
  const keyOf = ({ queue, name, lane }: KindRow) => kindKey(queueByNum.get(queue)?.name as string, name, lane)
  const index = {
    queues,
    kinds,
    queueByName: new Map(queues.map((row) => [row.name, row])),
    queueByNum,
    kindByKey: new Map(kinds.map((row) => [keyOf(row), row])),
    kindByNum: new Map(kinds.map((row) => [row.num, row])),
    kindsByName: grouped(kinds, ({ name }) => name),
    kindsByQueue: grouped(kinds, ({ queue }) => queue),
  }
  indexes.set(kinds, index)
  return index
}

function grouped<K, V>(values: readonly V[], keyOf: (value: V) => K): Map<K, V[]> {
  const groups = new Map<K, V[]>()
  for (const value of values) {
    const group = groups.get(keyOf(value))
    if (group === undefined) groups.set(keyOf(value), [value])
    else group.push(value)
  }
  return groups
}

/**
 * Kinds and queues are read as a whole, and made when they are looked for: there may be thousands. Their counts begin at 0: what
 * they come to is what has changed.
 */
export class PagedKinds implements Kinds {
  readonly #page: Page
  readonly #parts: QueueParts
  readonly #index: Index
  /** Those that were looked for, by name and by number. */
  readonly #queues = new Map<string, PagedQueue>()
  readonly #kinds = new Map<number, PagedKind>()
  /** Those of which it counts how many run. */
  readonly counted = new Set<PagedKind>()

  constructor(page: Page, parts: QueueParts) {
    this.#page = page
    this.#parts = parts
    this.#index = indexOf(page.sheet('queues'), page.sheet('kinds'))
  }

  byNum(num: number): PagedKind {
    const row = this.#index.kindByNum.get(num)
    if (row !== undefined) return this.#kindOf(row)
    // Another process made it after the sheet was read.
    return this.#page.row('newKind', String(num)) as never
  }

  of({ queue, name, lane }: NewJob): PagedKind {
    const key = kindKey(queue, name, lane)
    return this.find(key) ?? (this.#page.row('newKind', key) as never)
  }

  find(key: string): PagedKind | undefined {
    const row = this.#index.kindByKey.get(key)
    return row && this.#kindOf(row)
  }

  queue(name: string): PagedQueue {
    return this.findQueue(name) ?? (this.#page.row('newQueue', name) as never)
  }

  findQueue(name: string): PagedQueue | undefined {
    const row = this.#index.queueByName.get(name)
    return row && this.#queueOf(row)
  }

  queueNames(): Iterable<string> {
    return this.#index.queueByName.keys()
  }

  *queuesOf(name: string): Generator<PagedQueue, void> {
    for (const row of this.#index.kindsByName.get(name) ?? []) yield this.#kindOf(row).queue
  }

  concern(name: string): void {
    for (const queue of this.queuesOf(name)) queue.traffic = true
  }

  pending(queue: string): number[] {
    const lanes = new Array<number>(laneCount).fill(0)
    for (const { num, lane } of this.#kindsIn(queue)) {
      const stored = this.#stored('counts', num)?.pending ?? 0
      lanes[lane] = (lanes[lane] ?? 0) + stored + (this.#kinds.get(num)?.states.pending ?? 0)
    }
    return lanes
  }

  running(ref: GateRef): number {
    const rows = ref.of === 'queue' ? this.#kindsIn(ref.name) : (this.#index.kindsByName.get(ref.name) ?? [])
    let running = 0
    for (const row of rows) {
      const kind = this.#kindOf(row)
      running += this.storedRunning(kind) + kind.states.running
      this.counted.add(kind)
    }
    return running
  }

  countOf(state: 'completed' | 'dead' | 'cancelled'): number {
    let count = 0
    for (const { num } of this.#index.kinds)
      count += (this.#stored('counts', num)?.[state] ?? 0) + (this.#kinds.get(num)?.states[state] ?? 0)
    return count
  }

  /** Kinds whose counts have changed. */
  changed(): PagedKind[] {
    return byNumber(this.#kinds.values()).filter(
      ({ states, totals }) => Object.values(states).some(isChange) || Object.values(totals).some(isChange),
    )
  }

  limitedQueues(): string[] {
    return this.#index.queues
      .filter(({ name, traffic }) => this.#queues.get(name)?.traffic ?? traffic)
      .map(({ name }) => name)
  }

  changedQueues(): PagedQueue[] {
    return byNumber(this.#queues.values()).filter(({ name, paused, traffic }) => {
      const row = this.#index.queueByName.get(name)
      return row?.paused !== paused || row?.traffic !== traffic
    })
  }

  storedRunning({ num }: PagedKind): number {
    return this.#stored('running', num)?.running ?? 0
  }

  #stored(sheet: 'counts' | 'running', num: number): CountRow | undefined {
    return this.#page.sheet<ReadonlyMap<number, CountRow>>(sheet).get(num)
  }

  #kindsIn(queue: string): readonly KindRow[] {
    const row = this.#index.queueByName.get(queue)
    return (row && this.#index.kindsByQueue.get(row.num)) ?? []
  }

  #queueOf(row: QueueRow): PagedQueue {
    let queue = this.#queues.get(row.name)
    if (queue === undefined) {
      queue = makeQueue(row, this.#parts)
      this.#queues.set(row.name, queue)
    }
    return queue
  }

  #kindOf({ num, queue: of, name, lane }: KindRow): PagedKind {
    let kind = this.#kinds.get(num)
    if (kind === undefined) {
      const queue = this.#queueOf(this.#index.queueByNum.get(of) as QueueRow)
      const line = this.#parts.line(queue.num, lane)
      kind = { num, queue, name, lane, line, states: newStates(), totals: newTotals() }
      this.#kinds.set(num, kind)
    }
    return kind
  }
}

function byNumber<T extends { readonly num: number }>(some: Iterable<T>): T[] {
  return [...some].sort((a, b) => a.num - b.num)
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
