import type { Gate } from '../../core/traffic/gate.js'
import { type GateRef, ownerOf } from '../../core/traffic/settings.js'
import { Sorted } from '../ledger/sorted.js'
import {
  type Fading,
  type LineName,
  ParkingGate,
  type Place,
  type PlaceBooks,
  TrafficLine,
} from '../ledger/traffic.js'
import type { MemoryKinds } from './kind.js'

/** Gates and lines, numbered as they come. */
export class MemoryPlaces implements PlaceBooks {
  readonly due = new Sorted<ParkingGate>()
  readonly fading = new Sorted<Fading>()
  readonly #kinds: MemoryKinds
  /** By scope, owner and name. */
  readonly #gates: Record<GateRef['of'], Map<string, Map<string, ParkingGate>>> = {
    queue: new Map(),
    job: new Map(),
    group: new Map(),
    key: new Map(),
    limiter: new Map(),
  }
  readonly #lines: TrafficLine[] = []
  #count = 0

  constructor(kinds: MemoryKinds) {
    this.#kinds = kinds
  }

  findGate(ref: GateRef): ParkingGate | undefined {
    return this.#gates[ref.of].get(ownerOf(ref))?.get(ref.name)
  }

  addGate(ref: GateRef, parent: Gate | undefined): ParkingGate {
    const owner = ownerOf(ref)
    const members = this.#gates[ref.of].get(owner) ?? new Map<string, ParkingGate>()
    this.#gates[ref.of].set(owner, members)
    const gate = new ParkingGate(++this.#count, ref, parent, new Sorted())
    members.set(ref.name, gate)
    return gate
  }

  deleteGate({ ref }: ParkingGate): void {
    this.#gates[ref.of].get(ownerOf(ref))?.delete(ref.name)
  }

  activeGates(of: 'queue' | 'job'): ParkingGate[] {
    return this.gates(of, undefined).filter(({ active }) => active)
  }

  /** As they came; of one owner, or all. */
  gates(of: GateRef['of'], owner: string | undefined): ParkingGate[] {
    if (owner !== undefined) return [...(this.#gates[of].get(owner)?.values() ?? [])].filter(isKept)
    const all = [...this.#gates[of].values()].flatMap((members) => [...members.values()])
    return all.filter(isKept).sort((a, b) => a.num - b.num)
  }

  addLine(name: LineName): TrafficLine {
    const line = new TrafficLine(++this.#count, name, new Sorted())
    this.#kinds.queue(name.queue).gated[name.lane]?.push(line)
    this.#lines.push(line)
    return line
  }

  lookAgainUnder(of: 'group' | 'key', owner: string, now: number): void {
    for (const gate of this.gates(of, owner)) {
      if (gate.parked === 0) continue
      gate.dueAt = now
      if (gate.isDue) this.due.delete(gate)
      gate.isDue = true
      gate.rank = now
      this.due.add(gate)
    }
  }

  /** Places where jobs wait, by their numbers. */
  waiting(): Place[] {
    const gates = [...this.gates('group', undefined), ...this.gates('key', undefined)]
    return [...this.#lines, ...gates].filter(({ jobs }) => !jobs.isEmpty).sort((a, b) => a.num - b.num)
  }
}

function isKept(gate: ParkingGate): boolean {
  return gate.isKept
}
