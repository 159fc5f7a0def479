import { MillraceError } from '../../../core/errors.js'
import type {
  AllPage,
  AllQuery,
  Append,
  AppendResult,
  StoredEvent,
  StreamPage,
  StreamQuery,
  Surplus,
  SurplusQuery,
} from '../../log.js'
import { slotOf } from '../../slot.js'

interface Stream {
  /** What appends are checked against. */
  version: number
  /** What readers see: without what is not committed yet. */
  visible: number
  events: StoredEvent[]
}

interface Landed {
  readonly stream: string
  /** How the append with this id was answered; undefined for ids of its later events. */
  readonly result: (AppendResult & { status: 'appended' }) | undefined
}

/** The events of a memory log. What a transaction has added lies behind `committed` until it ends. */
export class Events {
  /** By position. */
  #all: StoredEvent[] = []
  readonly #streams = new Map<string, Stream>()
  readonly #ids = new Map<string, Landed>()
  #last = 0
  #committed = 0

  /** The position of the newest event that was committed. */
  get end(): number {
    return this.#committed
  }

  /** Answers an append; what it changed is seen by readers after `commit`. */
  append(append: Append, now: number): AppendResult {
    const landed = this.#ids.get(append.id)
    if (landed !== undefined) return repeated(append, landed)
    const { version } = this.#streams.get(append.stream) ?? { version: 0 }
    if (!isExpected(append, version)) return { status: 'conflict', version }
    for (const { id } of append.events) if (this.#ids.has(id)) throw takenId(id)
    return this.#add(append, now)
  }

  commit(): void {
    for (let i = this.#all.length - 1; i >= 0; i--) {
      const event = this.#all[i] as StoredEvent
      if (event.position <= this.#committed) break
      const stream = this.#streams.get(event.stream) as Stream
      stream.visible = Math.max(stream.visible, event.version)
    }
    this.#committed = this.#last
  }

  /** Forgets what was not committed. */
  rollback(): void {
    for (let event = this.#all.at(-1); event !== undefined; event = this.#all.at(-1)) {
      if (event.position <= this.#committed) break
      this.#all.pop()
      this.#ids.delete(event.id)
      const stream = this.#streams.get(event.stream) as Stream
      stream.events.pop()
      stream.version = event.version - 1
    }
    this.#last = this.#committed
  }

  stream({ stream: name, after, backwards, limit }: StreamQuery): StreamPage {
    const { events, visible } = this.#streams.get(name) ?? { events: [], visible: 0 }
    const seen = events.filter(({ version }) => version <= visible)
    const wanted = backwards
      ? seen.filter(({ version }) => version < after).reverse()
      : seen.filter(({ version }) => version > after)
    return { events: wanted.slice(0, limit), version: visible }
  }

  all({ after, limit, types, share }: AllQuery): AllPage {
    const from = this.#firstAbove(after)
    const looked = this.#all.slice(from, from + limit).filter(({ position }) => position <= this.#committed)
    const next = this.#all[from + limit]
    const more = next !== undefined && next.position <= this.#committed
    const events = looked.filter(
      (event) =>
        (types === undefined || types.includes(event.type)) &&
        (share === undefined || slotOf(event.stream) % share.of === share.part),
    )
    const through = more ? (looked.at(-1)?.position ?? after) : Math.max(after, this.#committed)
    return { events, through, more, pending: false }
  }

  /** Whether an event of this version is kept of a stream. */
  has(stream: string, version: number): boolean {
    return this.#streams.get(stream)?.events.some((event) => event.version === version) === true
  }

  /** `snapshotOf`: up to which version a stream's snapshots go, infinite when it has none. */
  surplus(
    { category, age, superseded, through, limit }: SurplusQuery,
    now: number,
    snapshotOf: (stream: string) => number,
  ): Surplus {
    const isSurplus = (event: StoredEvent) =>
      categoryOf(event.stream) === category &&
      event.at < now - age &&
      (superseded
        ? event.version < (this.#streams.get(event.stream)?.visible ?? 0)
        : event.version <= snapshotOf(event.stream))
    const found: StoredEvent[] = []
    for (const event of this.#all) {
      if (event.position > Math.min(through, this.#committed) || found.length === limit) break
      if (isSurplus(event)) found.push(event)
    }
    return { events: found, more: found.length === limit }
  }

  remove(positions: ReadonlySet<number>): void {
    const removed = this.#all.filter(({ position }) => positions.has(position))
    for (const { id, stream: name } of removed) {
      this.#ids.delete(id)
      const stream = this.#streams.get(name) as Stream
      stream.events = stream.events.filter(({ position }) => !positions.has(position))
    }
    this.#all = this.#all.filter(({ position }) => !positions.has(position))
  }

  /** True when the stream has no events left. */
  erase(name: string, limit: number): boolean {
    const { events } = this.#streams.get(name) ?? { events: [] }
    this.remove(new Set(events.slice(0, limit).map(({ position }) => position)))
    return events.length <= limit
  }

  #add({ id: first, stream: name, events }: Append, at: number): AppendResult {
    const stream = this.#streams.get(name) ?? { version: 0, visible: 0, events: [] }
    this.#streams.set(name, stream)
    for (const event of events) {
      const stored = { ...event, stream: name, version: ++stream.version, position: ++this.#last, at }
      stream.events.push(stored)
      this.#all.push(stored)
      this.#ids.set(event.id, { stream: name, result: undefined })
    }
    const result = {
      status: 'appended',
      version: stream.version,
      position: this.#last,
      at,
      repeated: false,
    } as const
    this.#ids.set(first, { stream: name, result })
    return result
  }

  #firstAbove(position: number): number {
    let low = 0
    let high = this.#all.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#all[middle] as StoredEvent).position > position) high = middle
      else low = middle + 1
    }
    return low
  }
}

function isExpected({ expected }: Append, version: number): boolean {
  if (expected === 'any') return true
  if (expected === 'exists') return version > 0
  return version === (expected === 'none' ? 0 : expected)
}

function repeated({ id, stream }: Append, landed: Landed): AppendResult {
  if (landed.stream !== stream || landed.result === undefined) throw takenId(id)
  return { ...landed.result, repeated: true }
}

function takenId(id: string): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `another append has an event with the id '${id}'; an id stands for one append to one stream`,
    { field: 'id', value: id },
  )
}

function categoryOf(stream: string): string {
  return stream.split('-', 1)[0] as string
}
