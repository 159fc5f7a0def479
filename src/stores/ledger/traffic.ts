import type { TrafficControl } from '../../core/traffic/control.js'
import { Gate } from '../../core/traffic/gate.js'
import type { DuePlace, Line, TrafficPlaces, TrafficSubject } from '../../core/traffic/places.js'
import type { GateRef, TrafficSettings } from '../../core/traffic/settings.js'
import { type Entry, storyOf } from './entry.js'
import type { Kinds } from './kind.js'
import { type Shelf, start } from './shelf.js'
import type { Signals } from './subscribe.js'

export type LineName = Pick<Line, 'queue' | 'lane' | 'name'>

/** Places are numbered as they come. */
export class TrafficLine implements Line {
  readonly num: number
  readonly queue: string
  readonly lane: number
  readonly name: string
  readonly jobs: Shelf<Entry>
  served = 0
  tag = 0
  backTag = 0

  constructor(num: number, { queue, lane, name }: LineName, jobs: Shelf<Entry>) {
    this.num = num
    this.queue = queue
    this.lane = lane
    this.name = name
    this.jobs = jobs
  }

  get isEmpty(): boolean {
    return this.jobs.isEmpty
  }
}

/** A gate with the jobs that are parked behind it. */
export class ParkingGate extends Gate {
  override readonly num: number
  readonly jobs: Shelf<Entry>
  /** Orders those that are due: when, then as they came. */
  rank = 0
  isDue = false
  /** It has a state of its own, and is not just what its groups or keys go by. */
  isKept = false
  fading: Fading | undefined = undefined

  constructor(
    num: number,
    ref: GateRef,
    parent: Gate | undefined,
    jobs: Shelf<Entry>,
    declared?: TrafficSettings,
    chosen?: TrafficSettings,
  ) {
    super(ref, parent, declared, chosen)
    this.num = num
    this.jobs = jobs
  }

  get seq(): number {
    return this.num
  }
}

/** A gate that will be idle: when, then as they came. */
export interface Fading {
  readonly rank: number
  readonly seq: number
  readonly gate: ParkingGate
}

export type Place = TrafficLine | ParkingGate

export type Traffic = TrafficControl<Entry, TrafficLine, ParkingGate>

/** Where an engine keeps gates and lines. */
export interface PlaceBooks {
  findGate(ref: GateRef): ParkingGate | undefined
  addGate(ref: GateRef, parent: Gate | undefined): ParkingGate
  deleteGate(gate: ParkingGate): void
  activeGates(of: 'queue' | 'job'): ParkingGate[]
  addLine(name: LineName): TrafficLine
  /** By when their parked jobs are worth a look. */
  readonly due: Shelf<ParkingGate>
  /** By when they may be forgotten. */
  readonly fading: Shelf<Fading>
  /** Of those with parked jobs, under a queue or a definition: they are due now, however many. */
  lookAgainUnder(of: 'group' | 'key', owner: string, now: number): void
}

export class Places implements TrafficPlaces<Entry, TrafficLine, ParkingGate> {
  readonly #books: PlaceBooks
  readonly #kinds: Kinds
  readonly #signals: Signals

  constructor(books: PlaceBooks, kinds: Kinds, signals: Signals) {
    this.#books = books
    this.#kinds = kinds
    this.#signals = signals
  }

  /** Nobody else can, while a verb works. */
  refresh(): void {}

  findGate(ref: GateRef): ParkingGate | undefined {
    return this.#books.findGate(ref)
  }

  gate(ref: GateRef): ParkingGate {
    return this.#books.findGate(ref) ?? this.#books.addGate(ref, this.#parent(ref))
  }

  keepGate(gate: ParkingGate): void {
    gate.isKept = true
    if (gate.fading?.rank !== gate.idleAt) this.#keepFading(gate)
    if (gate.isDue ? gate.rank === gate.dueAt : gate.dueAt === undefined) return
    if (gate.isDue) this.#books.due.delete(gate)
    gate.isDue = gate.dueAt !== undefined
    if (gate.dueAt === undefined) return
    gate.rank = gate.dueAt
    this.#books.due.add(gate)
  }

  forgetGate(gate: ParkingGate): void {
    gate.idleAt = undefined
    this.keepGate(gate)
    this.#books.deleteGate(gate)
  }

  dueGates(now: number, limit: number): ParkingGate[] {
    const due: ParkingGate[] = []
    for (const gate of this.#books.due.after(start.rank, start.seq, limit)) {
      if (gate.rank > now || due.length === limit) break
      due.push(gate)
    }
    return due
  }

  dueLater({ dueAt, num }: DuePlace, limit: number): ParkingGate[] {
    const later: ParkingGate[] = []
    for (const gate of this.#books.due.after(dueAt, num, limit)) {
      if (later.length === limit) break
      later.push(gate)
    }
    return later
  }

  idleGates(now: number, limit: number): ParkingGate[] {
    const idle: ParkingGate[] = []
    for (const { rank, gate } of this.#books.fading.after(start.rank, start.seq, limit)) {
      if (rank > now || idle.length === limit) break
      idle.push(gate)
    }
    return idle
  }

  get nextDue(): number | undefined {
    return this.#books.due.first?.rank
  }

  lookAgainUnder(ref: GateRef, now: number): void {
    if (ref.of !== 'queue' && ref.of !== 'job') return
    this.#books.lookAgainUnder(ref.of === 'queue' ? 'group' : 'key', ref.name, now)
  }

  line(queue: string, lane: number, name: string): TrafficLine {
    const known = this.#kinds
      .queue(queue)
      .trafficLines(lane)
      .find((one) => one.name === name)
    if (known !== undefined) return known
    this.#kinds.queue(queue).traffic = true
    return this.#books.addLine({ queue, lane, name })
  }

  keepLine(): void {}

  takeHeads(line: TrafficLine, count: number): Entry[] {
    const heads = line.jobs.take(count)
    for (const entry of heads) storyOf(entry).place = undefined
    return heads
  }

  stand(entry: Entry, line: TrafficLine): void {
    storyOf(entry).place = line
    line.jobs.add(entry)
  }

  park(entry: Entry, gate: ParkingGate): void {
    storyOf(entry).place = gate
    gate.jobs.add(entry)
  }

  unpark({ jobs }: ParkingGate, line: number): Entry | undefined {
    const [entry] = jobs.after(line, 0, 1)
    if (entry?.rank !== line) return undefined
    jobs.delete(entry)
    return entry
  }

  remove(entry: Entry): { line: number; behind: ParkingGate | undefined } {
    const place = storyOf(entry).place as Place
    storyOf(entry).place = undefined
    place.jobs.delete(entry)
    return place instanceof TrafficLine
      ? { line: place.num, behind: undefined }
      : { line: entry.rank, behind: place }
  }

  activeGates(of: 'queue' | 'job'): ParkingGate[] {
    return this.#books.activeGates(of)
  }

  running(ref: GateRef): number {
    return this.#kinds.running(ref)
  }

  concern(ref: GateRef): void {
    if (ref.of === 'queue') this.#kinds.queue(ref.name).traffic = true
    else this.#kinds.concern(ref.name)
  }

  ready({ queue, name }: TrafficSubject): void {
    this.#signals.ready(queue)
    for (const other of this.#kinds.queuesOf(name)) this.#signals.ready(other.name)
  }

  breakerChanged(job: string, gate: Gate): void {
    this.#signals.breaker(job, gate.breaker.phase)
  }

  quarantined(job: string, on: boolean): void {
    this.#signals.quarantine(job, on)
  }

  #keepFading(gate: ParkingGate): void {
    const { idleAt } = gate
    if (gate.fading !== undefined) this.#books.fading.delete(gate.fading)
    gate.fading = idleAt === undefined ? undefined : { rank: idleAt, seq: gate.num, gate }
    if (gate.fading !== undefined) this.#books.fading.add(gate.fading)
  }

  #parent(ref: GateRef): Gate | undefined {
    const above = parentRef(ref)
    return above && this.gate(above)
  }
}

/** Of a group its queue, of a key its definition. */
export function parentRef(ref: GateRef): GateRef | undefined {
  if (ref.of === 'group') return { of: 'queue', name: ref.queue }
  return ref.of === 'key' ? { of: 'job', name: ref.job } : undefined
}
