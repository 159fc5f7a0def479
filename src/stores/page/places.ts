import { laneCount } from '../../core/lanes.js'
import { closedBreaker } from '../../core/traffic/breaker.js'
import type { Gate, LineShare } from '../../core/traffic/gate.js'
import { noQuarantine } from '../../core/traffic/quarantine.js'
import { noStarts } from '../../core/traffic/rate.js'
import { noSpan } from '../../core/traffic/set-back.js'
import { type GateRef, ownerOf } from '../../core/traffic/settings.js'
import type { Entry } from '../ledger/entry.js'
import {
  type Fading,
  type LineName,
  ParkingGate,
  type Place,
  type PlaceBooks,
  parentRef,
  TrafficLine,
} from '../ledger/traffic.js'
import { isSame } from './book.js'
import type { Page } from './page.js'
import { PagedShelf, type Source } from './shelf.js'

export interface GateRow {
  readonly num: number
  readonly scope: GateRef['of']
  readonly owner: string
  readonly name: string
  readonly parked: number
  readonly active: boolean
  readonly due: number | null
  readonly fading: number | null
  readonly state: string
}

/** What is as in a new gate is left out. */
interface GateState
  extends Partial<
    Pick<
      Gate,
      | 'pending'
      | 'running'
      | 'starts'
      | 'hold'
      | 'breaker'
      | 'quarantine'
      | 'reserved'
      | 'full'
      | 'declared'
      | 'chosen'
    >
  > {
  readonly lines: readonly (readonly [number, number, number, number, number])[]
}

export interface LineRow {
  readonly num: number
  readonly queue: number
  readonly lane: number
  readonly name: string
  readonly served: number
  readonly tag: number
  readonly back_tag: number
}

/** A gate as it was made or read. */
class PagedGate extends ParkingGate {
  readonly row: GateRow | undefined
  isGone = false

  constructor(
    num: number,
    ref: GateRef,
    parent: Gate | undefined,
    jobs: PagedShelf<Entry>,
    row: GateRow | undefined,
    state: GateState | undefined,
  ) {
    super(num, ref, parent, jobs, state?.declared, state?.chosen)
    this.row = row
  }
}

/** What the places need of the rest. */
export interface PlaceParts {
  nextNum(): number
  queueName(num: number): string
  queueNum(name: string): number
  /** Of those that wait. */
  readonly jobs: Pick<Source<Entry>, 'item' | 'seq'>
  /** Jobs that are likely to be asked for at once. */
  readonly count: number
  /** Lines of a queue are looked at, or gates that its jobs may have to pass. */
  touched(queue: string): void
  queuesOf(job: string): Iterable<{ readonly name: string }>
}

export class PagedPlaces implements PlaceBooks {
  readonly due: PagedShelf<ParkingGate>
  readonly fading: PagedShelf<Fading>
  readonly #page: Page
  readonly #parts: PlaceParts
  readonly #gates = new Map<string, PagedGate | undefined>()
  readonly #byNum = new Map<number, PagedGate>()
  #lines: TrafficLine[] | undefined
  readonly #byLane = new Map<number, readonly TrafficLine[]>()
  readonly #looksAgain: { scope: string; owner: string; due: number }[] = []

  constructor(page: Page, parts: PlaceParts) {
    this.#page = page
    this.#parts = parts
    const seq = (row: unknown) => (row as GateRow).num
    this.due = new PagedShelf(page, {
      shelf: 'gateDue',
      scope: [],
      seq,
      item: (row) => this.#ofRow(row as GateRow),
    })
    this.fading = new PagedShelf(page, {
      shelf: 'gateFading',
      scope: [],
      seq,
      item: (row) => this.#ofRow(row as GateRow).fading as Fading,
    })
  }

  findGate(ref: GateRef): PagedGate | undefined {
    const key = gateKey(ref)
    if (this.#gates.has(key)) return this.#gates.get(key)
    const row = this.#page.row<GateRow>('gate', key)
    return row === null ? undefined : this.#ofRow(row)
  }

  addGate(ref: GateRef, parent: Gate | undefined): PagedGate {
    const num = this.#parts.nextNum()
    const gate = new PagedGate(num, ref, parent, this.#shelf(-num, true), undefined, undefined)
    return this.#keep(gate)
  }

  deleteGate(gate: ParkingGate): void {
    this.#gates.set(gateKey(gate.ref), undefined)
    ;(gate as PagedGate).isGone = true
  }

  activeGates(of: 'queue' | 'job'): ParkingGate[] {
    for (const row of this.#page.sheet<readonly GateRow[]>('activeGates'))
      if (!this.#gates.has(rowKey(row))) this.#ofRow(row)
    return [...this.#gates.values()].filter(
      (gate): gate is PagedGate => gate?.ref.of === of && gate.active && gate.isKept,
    )
  }

  addLine({ queue, lane, name }: LineName): TrafficLine {
    this.#parts.touched(queue)
    const num = this.#parts.nextNum()
    const line = new TrafficLine(num, { queue, lane, name }, this.#shelf(num, true))
    this.#allLines().push(line)
    this.#byLane.clear()
    return line
  }

  linesOf(queue: number, lane: number): readonly TrafficLine[] {
    const key = queue * laneCount + lane
    let lines = this.#byLane.get(key)
    if (lines === undefined) {
      const name = this.#parts.queueName(queue)
      this.#parts.touched(name)
      lines = this.#allLines().filter((line) => line.queue === name && line.lane === lane)
      this.#byLane.set(key, lines)
    }
    return lines
  }

  lookAgainUnder(scope: 'group' | 'key', owner: string, now: number): void {
    this.#looksAgain.push({ scope, owner, due: now })
    for (const gate of this.#gates.values()) {
      if (gate?.ref.of !== scope || ownerOf(gate.ref) !== owner || gate.parked === 0) continue
      if (gate.isDue) this.due.delete(gate)
      gate.dueAt = now
      gate.isDue = true
      gate.rank = now
      this.due.add(gate)
    }
  }

  ofRows(rows: readonly GateRow[]): ParkingGate[] {
    return rows.map((row) => this.#ofRow(row))
  }

  /** By the number that a waiting job has. */
  place(num: number): Place {
    if (num < 0) return this.gateAt(-num) as PagedGate
    const line = this.#allLines().find((one) => one.num === num) as TrafficLine
    this.#parts.touched(line.queue)
    return line
  }

  gateAt(num: number): PagedGate | undefined {
    const known = this.#byNum.get(num)
    if (known !== undefined) return known
    const row = this.#page.row<GateRow>('gateNum', String(num))
    return row === null ? undefined : this.#ofRow(row)
  }

  changes() {
    const kept: { readonly row: GateRow; readonly before: GateRow | undefined }[] = []
    const gone: GateRow[] = []
    for (const gate of this.#byNum.values()) {
      const before = gate.row
      if (gate.isGone) {
        if (before !== undefined) gone.push(before)
      } else if (gate.isKept) {
        const row = writeGate(gate)
        if (before === undefined || !isSame(row as never, before as never)) kept.push({ row, before })
      }
    }
    return { kept, gone, looksAgain: this.#looksAgain, lines: this.#changedLines() }
  }

  #changedLines(): LineRow[] {
    if (this.#lines === undefined) return []
    const before = new Map(this.#page.sheet<readonly LineRow[]>('lines').map((row) => [row.num, row]))
    return this.#lines.flatMap((line) => {
      const { num, queue, lane, name, served, tag, backTag } = line
      const row = { num, queue: this.#parts.queueNum(queue), lane, name, served, tag, back_tag: backTag }
      const was = before.get(num)
      return was !== undefined && isSame(row, was as never) ? [] : [row]
    })
  }

  #allLines(): TrafficLine[] {
    this.#lines ??= this.#page.sheet<readonly LineRow[]>('lines').map((row) => {
      const name = { queue: this.#parts.queueName(row.queue), lane: row.lane, name: row.name }
      const line = new TrafficLine(row.num, name, this.#shelf(row.num))
      line.served = row.served
      line.tag = row.tag
      line.backTag = row.back_tag
      return line
    })
    return this.#lines
  }

  #ofRow(row: GateRow): PagedGate {
    const known = this.#byNum.get(row.num)
    if (known !== undefined) return known
    const ref = refOf(row)
    const parent = parentRef(ref)
    const above = parent && (this.findGate(parent) ?? this.addGate(parent, undefined))
    return this.#keep(readGate(row, ref, above, this.#shelf(-row.num)))
  }

  #keep(gate: PagedGate): PagedGate {
    const { of, name } = gate.ref
    if (of === 'queue') this.#parts.touched(name)
    if (of === 'job') for (const queue of this.#parts.queuesOf(name)) this.#parts.touched(queue.name)
    this.#gates.set(gateKey(gate.ref), gate)
    this.#byNum.set(gate.num, gate)
    return gate
  }

  #shelf(num: number, isNew = false): PagedShelf<Entry> {
    const { jobs, count } = this.#parts
    return new PagedShelf(this.#page, { shelf: 'place', scope: [num], ...jobs, count }, isNew)
  }
}

function unless<T>(value: T, usual: T): T | undefined {
  return value === usual ? undefined : value
}

function unlessEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value
}

function gateKey(ref: GateRef): string {
  return `${ref.of}\n${ownerOf(ref)}\n${ref.name}`
}

function rowKey({ scope, owner, name }: GateRow): string {
  return `${scope}\n${owner}\n${name}`
}

function refOf({ scope, owner, name }: GateRow): GateRef {
  if (scope === 'group') return { of: 'group', queue: owner, name }
  if (scope === 'key') return { of: 'key', job: owner, name }
  return { of: scope, name }
}

function readGate(row: GateRow, ref: GateRef, parent: Gate | undefined, jobs: PagedShelf<Entry>): PagedGate {
  const state = JSON.parse(row.state) as GateState
  const gate = new PagedGate(row.num, ref, parent, jobs, row, state)
  gate.isKept = true
  gate.parked = row.parked
  gate.active = row.active
  gate.dueAt = row.due ?? undefined
  gate.isDue = row.due !== null
  gate.rank = row.due ?? 0
  gate.idleAt = row.fading ?? undefined
  gate.fading = row.fading === null ? undefined : { rank: row.fading, seq: row.num, gate }
  gate.pending = state.pending ?? 0
  gate.running = state.running ?? 0
  gate.starts = state.starts ?? noStarts
  gate.hold = state.hold ?? noSpan
  gate.breaker = state.breaker ?? closedBreaker
  gate.quarantine = state.quarantine ?? noQuarantine
  gate.reserved = state.reserved
  gate.full = state.full ?? 0
  gate.lines = new Map(
    state.lines.map(([num, tag, backTag, standing, parked]): [number, LineShare] => [
      num,
      { tag, backTag, standing, parked },
    ]),
  )
  return gate
}

function writeGate(gate: PagedGate): GateRow {
  const { num, ref, parked, active, dueAt, idleAt } = gate
  const lines = [...gate.lines].map(
    ([line, { tag, backTag, standing, parked: behind }]) => [line, tag, backTag, standing, behind] as const,
  )
  const state: Record<keyof GateState, unknown> = {
    pending: gate.pending || undefined,
    running: gate.running || undefined,
    starts: unless(gate.starts, noStarts),
    hold: unless(gate.hold, noSpan),
    breaker: unless(gate.breaker, closedBreaker),
    quarantine: unless(gate.quarantine, noQuarantine),
    reserved: gate.reserved,
    full: gate.full || undefined,
    declared: unlessEmpty(gate.declared),
    chosen: unlessEmpty(gate.chosen),
    lines,
  }
  return {
    num,
    scope: ref.of,
    owner: ownerOf(ref),
    name: ref.name,
    parked,
    active,
    due: dueAt ?? null,
    fading: idleAt ?? null,
    state: JSON.stringify(state),
  }
}
