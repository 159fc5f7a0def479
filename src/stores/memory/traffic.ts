import type { TrafficControl } from '../../core/traffic/control.js'
import { Gate } from '../../core/traffic/gate.js'
import type { DuePlace, Line, TrafficPlaces, TrafficSubject } from '../../core/traffic/places.js'
import { type GateRef, ownerOf } from '../../core/traffic/settings.js'
import { type Entry, storyOf } from './entry.js'
import type { Kinds } from './kind.js'
import { Sorted } from './sorted.js'
import type { Signals } from './subscribe.js'

/** Places are numbered as they come. */
export class TrafficLine implements Line {
  readonly num: number
  readonly queue: string
  readonly lane: number
  readonly name: string
  readonly jobs = new Sorted<Entry>()
  served = 0
  tag = 0
  backTag = 0

  constructor(num: number, queue: string, lane: number, name: string) {
    this.num = num
    this.queue = queue
    this.lane = lane
    this.name = name
  }

  get size(): number {
    return this.jobs.size
  }
}

/** A gate with the jobs that are parked behind it. */
class ParkingGate extends Gate {
  override readonly num: number
  readonly jobs = new Sorted<Entry>()
  /** Orders those that are due: when, then as they came. */
  rank = 0
  isDue = false
  /** It has a state of its own, and is not just what its groups or keys go by. */
  isKept = false
  fading: Fading | undefined = undefined

  constructor(num: number, ref: GateRef, parent: Gate | undefined) {
    super(ref, parent)
    this.num = num
  }

  get seq(): number {
    return this.num
  }
}

/** A gate that will be idle: when, then as they came. */
interface Fading {
  readonly rank: number
  readonly seq: number
  readonly gate: ParkingGate
}

export type Place = TrafficLine | ParkingGate
export type { ParkingGate }

export type Traffic = TrafficControl<Entry, TrafficLine, ParkingGate>

export class Places implements TrafficPlaces<Entry, TrafficLine, ParkingGate> {
  readonly #kinds: Kinds
  readonly #signals: Signals
  /** By scope, owner and name. */
  readonly #gates: Record<GateRef['of'], Map<string, Map<string, ParkingGate>>> = {
    queue: new Map(),
    job: new Map(),
    group: new Map(),
    key: new Map(),
    limiter: new Map(),
  }
  readonly #lines: TrafficLine[] = []
  readonly #due = new Sorted<ParkingGate>()
  readonly #fading = new Sorted<Fading>()
  #count = 0

  constructor(kinds: Kinds, signals: Signals) {
    this.#kinds = kinds
    this.#signals = signals
  }

  /** Nobody else can. */
  refresh(): void {}

  findGate(ref: GateRef): ParkingGate | undefined {
    return this.#gates[ref.of].get(ownerOf(ref))?.get(ref.name)
  }

  gate(ref: GateRef): ParkingGate {
    const owner = ownerOf(ref)
    let members = this.#gates[ref.of].get(owner)
    if (members === undefined) {
      members = new Map()
      this.#gates[ref.of].set(owner, members)
    }
    let gate = members.get(ref.name)
    if (gate === undefined) {
      gate = new ParkingGate(++this.#count, ref, this.#parent(ref))
      members.set(ref.name, gate)
    }
    return gate
  }

  /** As they came; of one owner, or all. */
  gates(of: GateRef['of'], owner: string | undefined): ParkingGate[] {
    if (owner !== undefined) return [...(this.#gates[of].get(owner)?.values() ?? [])].filter(isKept)
    const all = [...this.#gates[of].values()].flatMap((members) => [...members.values()])
    return all.filter(isKept).sort((a, b) => a.num - b.num)
  }

  /** Places where jobs wait, by their numbers. */
  waiting(): Place[] {
    const gates = [...this.gates('group', undefined), ...this.gates('key', undefined)]
    return [...this.#lines, ...gates].filter(({ jobs }) => jobs.size > 0).sort((a, b) => a.num - b.num)
  }

  keepGate(gate: ParkingGate): void {
    gate.isKept = true
    if (gate.fading?.rank !== gate.idleAt) this.#keepFading(gate)
    if (gate.isDue ? gate.rank === gate.dueAt : gate.dueAt === undefined) return
    if (gate.isDue) this.#due.delete(gate)
    gate.isDue = gate.dueAt !== undefined
    if (gate.dueAt === undefined) return
    gate.rank = gate.dueAt
    this.#due.add(gate)
  }

  forgetGate(gate: ParkingGate): void {
    gate.idleAt = undefined
    this.keepGate(gate)
    this.#gates[gate.ref.of].get(ownerOf(gate.ref))?.delete(gate.ref.name)
  }

  dueGates(now: number, limit: number): ParkingGate[] {
    const due: ParkingGate[] = []
    for (const gate of this.#due.after(Number.NEGATIVE_INFINITY, 0)) {
      if (gate.rank > now || due.length === limit) break
      due.push(gate)
    }
    return due
  }

  dueLater({ dueAt, num }: DuePlace, limit: number): ParkingGate[] {
    const later: ParkingGate[] = []
    for (const gate of this.#due.after(dueAt, num)) {
      if (later.length === limit) break
      later.push(gate)
    }
    return later
  }

  idleGates(now: number, limit: number): ParkingGate[] {
    const idle: ParkingGate[] = []
    for (const { rank, gate } of this.#fading.after(Number.NEGATIVE_INFINITY, 0)) {
      if (rank > now || idle.length === limit) break
      idle.push(gate)
    }
    return idle
  }

  get nextDue(): number | undefined {
    return this.#due.first?.rank
  }

  lookAgainUnder(ref: GateRef, now: number): void {
    if (ref.of !== 'queue' && ref.of !== 'job') return
    for (const gate of this.gates(ref.of === 'queue' ? 'group' : 'key', ref.name)) {
      if (gate.parked === 0) continue
      gate.dueAt = now
      this.keepGate(gate)
    }
  }

  line(queue: string, lane: number, name: string): TrafficLine {
    const lines = this.#kinds.queue(queue).trafficLines[lane] as TrafficLine[]
    let line = lines.find((one) => one.name === name)
    if (line === undefined) {
      line = new TrafficLine(++this.#count, queue, lane, name)
      lines.push(line)
      this.#lines.push(line)
      this.#kinds.queue(queue).traffic = true
    }
    return line
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
    const [entry] = jobs.after(line, 0)
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
    return this.gates(of, undefined).filter(({ active }) => active)
  }

  running(ref: GateRef): number {
    let running = 0
    for (const kind of this.#kinds.all()) {
      if ((ref.of === 'queue' ? kind.queue.name : kind.name) === ref.name) running += kind.states.running
    }
    return running
  }

  concern(ref: GateRef): void {
    if (ref.of === 'queue') this.#kinds.queue(ref.name).traffic = true
    else this.#kinds.limited.add(ref.name)
    for (const kind of this.#kinds.all()) {
      if (ref.of === 'job' && kind.name === ref.name) kind.queue.traffic = true
    }
  }

  ready({ queue, name }: TrafficSubject): void {
    this.#signals.ready(queue)
    for (const kind of this.#kinds.all()) if (kind.name === name) this.#signals.ready(kind.queue.name)
  }

  breakerChanged(job: string, gate: Gate): void {
    this.#signals.breaker(job, gate.breaker.phase)
  }

  quarantined(job: string, on: boolean): void {
    this.#signals.quarantine(job, on)
  }

  #keepFading(gate: ParkingGate): void {
    const { idleAt } = gate
    if (gate.fading !== undefined) this.#fading.delete(gate.fading)
    gate.fading = idleAt === undefined ? undefined : { rank: idleAt, seq: gate.num, gate }
    if (gate.fading !== undefined) this.#fading.add(gate.fading)
  }

  #parent(ref: GateRef): Gate | undefined {
    if (ref.of === 'group') return this.gate({ of: 'queue', name: ref.queue })
    return ref.of === 'key' ? this.gate({ of: 'job', name: ref.job }) : undefined
  }
}

function isKept(gate: ParkingGate): boolean {
  return gate.isKept
}
