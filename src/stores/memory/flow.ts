import type { GateRef } from '../../core/flow.js'
import type { FlowControl, FlowPlaces, Line } from '../../core/flow-control.js'
import { Gate } from '../../core/gate.js'
import { type Entry, storyOf } from './entry.js'
import type { Kinds } from './kind.js'
import { Sorted } from './sorted.js'
import type { Signals } from './subscribe.js'

/** Places are numbered as they come. */
export class FlowLine implements Line {
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
}

/** A gate with the jobs that are parked behind it. */
class GatePlace {
  readonly num: number
  readonly gate: Gate
  readonly jobs = new Sorted<Entry>()
  /** Orders those that are due: when, then as they came. */
  rank = 0
  isDue = false
  /** It has a state of its own, and is not just what its groups or keys go by. */
  isKept = false
  fading: Fading | undefined = undefined

  constructor(num: number, gate: Gate) {
    this.num = num
    this.gate = gate
  }

  get seq(): number {
    return this.num
  }
}

/** A gate that will be idle: when, then as they came. */
interface Fading {
  readonly rank: number
  readonly seq: number
  readonly gate: Gate
}

export type Place = FlowLine | GatePlace

export type Flow = FlowControl<Entry, FlowLine>

export class Places implements FlowPlaces<Entry, FlowLine> {
  readonly #kinds: Kinds
  readonly #signals: Signals
  readonly #gates: Record<GateRef['of'], Map<string, GatePlace>> = {
    queue: new Map(),
    job: new Map(),
    group: new Map(),
    key: new Map(),
    limiter: new Map(),
  }
  readonly #lines: FlowLine[] = []
  readonly #due = new Sorted<GatePlace>()
  readonly #fading = new Sorted<Fading>()
  #count = 0

  constructor(kinds: Kinds, signals: Signals) {
    this.#kinds = kinds
    this.#signals = signals
  }

  findGate(ref: GateRef): Gate | undefined {
    return this.#find(ref)?.gate
  }

  gate(ref: GateRef): Gate {
    return this.#place(ref).gate
  }

  *gates(of: GateRef['of']): Generator<{ readonly gate: Gate; readonly num: number }, void> {
    for (const place of this.#gates[of].values()) if (place.isKept) yield place
  }

  /** Places where jobs wait, by their numbers. */
  waiting(): Place[] {
    const gates = [...this.#gates.group.values(), ...this.#gates.key.values()]
    return [...this.#lines, ...gates].filter(({ jobs }) => jobs.size > 0).sort((a, b) => a.num - b.num)
  }

  keepGate(gate: Gate): void {
    const place = this.#place(gate.ref)
    place.isKept = true
    this.#keepFading(place)
    if (place.isDue && place.rank === gate.dueAt) return
    if (place.isDue) this.#due.delete(place)
    place.isDue = gate.dueAt !== undefined
    if (gate.dueAt === undefined) return
    place.rank = gate.dueAt
    this.#due.add(place)
  }

  forgetGate(gate: Gate): void {
    gate.idleAt = undefined
    this.keepGate(gate)
    this.#gates[gate.ref.of].delete(keyOf(gate.ref))
  }

  dueGates(now: number, limit: number): Gate[] {
    const due: Gate[] = []
    for (const place of this.#due.after(Number.NEGATIVE_INFINITY, 0)) {
      if (place.rank > now || due.length === limit) break
      due.push(place.gate)
    }
    return due
  }

  idleGates(now: number, limit: number): Gate[] {
    const idle: Gate[] = []
    for (const { rank, gate } of this.#fading.after(Number.NEGATIVE_INFINITY, 0)) {
      if (rank > now || idle.length === limit) break
      idle.push(gate)
    }
    return idle
  }

  get nextDue(): number | undefined {
    return this.#due.first?.rank
  }

  *parkedUnder(ref: GateRef): Generator<Gate, void> {
    if (ref.of !== 'queue' && ref.of !== 'job') return
    for (const { gate } of this.#gates[ref.of === 'queue' ? 'group' : 'key'].values()) {
      if (gate.parked > 0 && gate.parent === this.findGate(ref)) yield gate
    }
  }

  line(queue: string, lane: number, name: string): FlowLine {
    const lines = this.#kinds.queue(queue).flowLines[lane] as FlowLine[]
    let line = lines.find((one) => one.name === name)
    if (line === undefined) {
      line = new FlowLine(++this.#count, queue, lane, name)
      lines.push(line)
      this.#lines.push(line)
      this.#kinds.queue(queue).flow = true
    }
    return line
  }

  keepLine(): void {}

  takeHeads(line: FlowLine, count: number): Entry[] {
    const heads = line.jobs.take(count)
    for (const entry of heads) storyOf(entry).place = undefined
    return heads
  }

  stand(entry: Entry, line: FlowLine): void {
    storyOf(entry).place = line
    line.jobs.add(entry)
  }

  park(entry: Entry, gate: Gate): void {
    const place = this.#place(gate.ref)
    storyOf(entry).place = place
    place.jobs.add(entry)
  }

  unpark(gate: Gate, line: number): Entry | undefined {
    const { jobs } = this.#place(gate.ref)
    const [entry] = jobs.after(line, 0)
    if (entry?.rank !== line) return undefined
    jobs.delete(entry)
    return entry
  }

  remove(entry: Entry): { line: number; behind: Gate | undefined } {
    const place = storyOf(entry).place as Place
    storyOf(entry).place = undefined
    place.jobs.delete(entry)
    return place instanceof GatePlace
      ? { line: entry.rank, behind: place.gate }
      : { line: place.num, behind: undefined }
  }

  running(ref: GateRef): number {
    let running = 0
    for (const kind of this.#kinds.all()) {
      if ((ref.of === 'queue' ? kind.queue.name : kind.name) === ref.name) running += kind.states.running
    }
    return running
  }

  concern(ref: GateRef): void {
    if (ref.of === 'queue') this.#kinds.queue(ref.name).flow = true
    else this.#kinds.limited.add(ref.name)
    for (const kind of this.#kinds.all()) {
      if (ref.of === 'job' && kind.name === ref.name) kind.queue.flow = true
    }
  }

  ready(queue: string): void {
    this.#signals.ready(queue)
  }

  breakerChanged(job: string, gate: Gate): void {
    this.#signals.breaker(job, gate.breaker.phase)
  }

  quarantined(job: string, on: boolean): void {
    this.#signals.quarantine(job, on)
  }

  #keepFading(place: GatePlace): void {
    const { idleAt } = place.gate
    if (place.fading?.rank === idleAt) return
    if (place.fading !== undefined) this.#fading.delete(place.fading)
    place.fading = idleAt === undefined ? undefined : { rank: idleAt, seq: place.num, gate: place.gate }
    if (place.fading !== undefined) this.#fading.add(place.fading)
  }

  #find(ref: GateRef): GatePlace | undefined {
    return this.#gates[ref.of].get(keyOf(ref))
  }

  #place(ref: GateRef): GatePlace {
    let place = this.#find(ref)
    if (place === undefined) {
      place = new GatePlace(++this.#count, new Gate(ref, this.#parent(ref)))
      this.#gates[ref.of].set(keyOf(ref), place)
    }
    return place
  }

  #parent(ref: GateRef): Gate | undefined {
    if (ref.of === 'group') return this.gate({ of: 'queue', name: ref.queue })
    return ref.of === 'key' ? this.gate({ of: 'job', name: ref.job }) : undefined
  }
}

/** Names, groups and keys have no control characters. */
function keyOf(ref: GateRef): string {
  if (ref.of === 'group') return `${ref.queue}\n${ref.name}`
  return ref.of === 'key' ? `${ref.job}\n${ref.name}` : ref.name
}
