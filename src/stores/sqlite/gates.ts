import { closedBreaker } from '../../core/breaker.js'
import { type FlowSettings, type GateRef, ownerOf } from '../../core/flow.js'
import { Gate, type LineShare } from '../../core/gate.js'
import { noQuarantine } from '../../core/quarantine.js'
import { noStarts } from '../../core/rate.js'
import type { Database } from './connection.js'
import { parse } from './parse.js'
import { flow as sql } from './sql.generated.js'

interface GateRow {
  readonly num: number
  readonly pending: number
  readonly parked: number
  readonly running: number
  readonly lines: string | null
  readonly active: number
  readonly dueAt: number | null
  readonly idleAt: number | null
  readonly declared: string | null
  readonly chosen: string | null
  readonly memory: string | null
}

type Memory = Pick<Gate, 'starts' | 'heldUntil' | 'breaker' | 'quarantine' | 'full'>

interface Kept {
  readonly gate: Gate
  /** Parked jobs stand under its negative. */
  readonly num: number
}

/** More than this many are not remembered from one transaction to the next. */
const mostRemembered = 20_000

/**
 * Gates of this process's transactions: read when they are needed, written once at the end, and remembered as
 * long as no other connection has written to the file.
 */
export class GateTable {
  readonly #kept = new Map<string, Kept>()
  readonly #changed = new Map<string, Kept>()
  readonly #gone = new Map<string, GateRef>()
  #lastNum: number | undefined
  /** Numbers were given away in this transaction. */
  #numbered = false
  readonly #read
  readonly #readLastNum
  readonly #writeLastNum
  readonly #write
  readonly #remove
  readonly #due
  readonly #idle
  readonly #nextDue
  readonly #parkedUnder
  readonly #list

  constructor(db: Database) {
    this.#read = db.prepare<[string, string, string], GateRow>(sql.gate)
    this.#readLastNum = db.prepare<[], number>(sql.lastNum).pluck()
    this.#writeLastNum = db.prepare(sql.setLastNum)
    this.#write = db.prepare(sql.keepGate)
    this.#remove = db.prepare(sql.forgetGate)
    this.#due = db.prepare<[number, number], Named>(sql.due)
    this.#idle = db.prepare<[number, number], Named>(sql.idle)
    this.#nextDue = db.prepare<[number], Named & { dueAt: number }>(sql.nextDue)
    this.#parkedUnder = db.prepare<[string, string], string>(sql.parkedUnder).pluck()
    this.#list = db.prepare<[string, string, string, number], { owner: string; name: string }>(sql.gates)
  }

  find(ref: GateRef): Gate | undefined {
    return this.#find(ref)?.gate
  }

  /** Made on first use; stored once it is changed. */
  of(ref: GateRef): Gate {
    return this.#of(ref).gate
  }

  num(gate: Gate): number {
    return this.#of(gate.ref).num
  }

  change(gate: Gate): void {
    const key = keyOf(gate.ref)
    this.#changed.set(key, this.#of(gate.ref))
    this.#gone.delete(key)
  }

  forget(gate: Gate): void {
    const key = keyOf(gate.ref)
    this.#kept.delete(key)
    this.#changed.delete(key)
    this.#gone.set(key, gate.ref)
  }

  /** Those whose time has come, as far as this transaction has brought them. */
  due(now: number, limit: number): Gate[] {
    const found = new Map<string, Kept>()
    for (const named of this.#due.all(now, limit)) {
      const ref = refOf(named)
      const kept = this.#find(ref)
      if (kept !== undefined) found.set(keyOf(ref), kept)
    }
    for (const [key, kept] of this.#changed) found.set(key, kept)
    return [...found.values()]
      .filter(({ gate }) => gate.dueAt !== undefined && gate.dueAt <= now)
      .sort((a, b) => (a.gate.dueAt as number) - (b.gate.dueAt as number) || a.num - b.num)
      .slice(0, limit)
      .map(({ gate }) => gate)
  }

  /** Those that only time has kept until now, as stored. */
  idle(now: number, limit: number): Gate[] {
    return this.#idle.all(now, limit).flatMap((named) => this.find(refOf(named)) ?? [])
  }

  /** Of what is stored, and of what this transaction has made of it. */
  nextDue(): number | undefined {
    const old = (named: Named) =>
      this.#changed.has(keyOf(refOf(named))) || this.#gone.has(keyOf(refOf(named)))
    const stored = this.#nextDue.all(this.#changed.size + this.#gone.size + 1).find((named) => !old(named))
    let next = stored?.dueAt
    for (const { gate } of this.#changed.values()) {
      if (gate.dueAt !== undefined && (next === undefined || gate.dueAt < next)) next = gate.dueAt
    }
    return next
  }

  parkedUnder(ref: GateRef): Gate[] {
    if (ref.of !== 'queue' && ref.of !== 'job') return []
    const members = (name: string): GateRef =>
      ref.of === 'queue' ? { of: 'group', queue: ref.name, name } : { of: 'key', job: ref.name, name }
    const names = this.#parkedUnder.all(ref.of === 'queue' ? 'group' : 'key', ref.name)
    return names.map((name) => this.of(members(name)))
  }

  /** Of one scope, by owner and name, behind this place. */
  list(of: GateRef['of'], owner: string, name: string, limit: number): Gate[] {
    return this.#list.all(of, owner, name, limit).map((row) => this.of(refOf({ scope: of, ...row })))
  }

  /** The last thing a transaction does. */
  write(): void {
    for (const ref of this.#gone.values()) this.#remove.run(ref.of, ownerOf(ref), ref.name)
    for (const { gate, num } of this.#changed.values()) this.#writeOne(gate, num)
    this.#gone.clear()
    this.#changed.clear()
    if (this.#numbered) this.#writeLastNum.run(this.#lastNum)
    this.#numbered = false
    if (this.#kept.size > mostRemembered) this.forgetAll()
  }

  forgetAll(): void {
    this.#kept.clear()
    this.#changed.clear()
    this.#gone.clear()
    this.#lastNum = undefined
    this.#numbered = false
  }

  #writeOne(gate: Gate, num: number): void {
    this.#write.run(
      gate.ref.of,
      ownerOf(gate.ref),
      gate.ref.name,
      num,
      gate.pending,
      gate.parked,
      gate.running,
      linesText(gate),
      gate.active ? 1 : 0,
      gate.dueAt ?? null,
      gate.idleAt ?? null,
      settingsText(gate.declared),
      settingsText(gate.chosen),
      memoryText(gate),
    )
  }

  #find(ref: GateRef): Kept | undefined {
    const key = keyOf(ref)
    const known = this.#kept.get(key)
    if (known !== undefined || this.#gone.has(key)) return known
    const row = this.#read.get(ref.of, ownerOf(ref), ref.name)
    if (row === undefined) return undefined
    const kept = { gate: toGate(ref, this.#parent(ref), row), num: row.num }
    this.#kept.set(key, kept)
    return kept
  }

  #of(ref: GateRef): Kept {
    const found = this.#find(ref)
    if (found !== undefined) return found
    this.#lastNum = (this.#lastNum ?? (this.#readLastNum.get() as number)) + 1
    this.#numbered = true
    const kept = { gate: new Gate(ref, this.#parent(ref)), num: this.#lastNum }
    this.#kept.set(keyOf(ref), kept)
    return kept
  }

  #parent(ref: GateRef): Gate | undefined {
    if (ref.of === 'group') return this.of({ of: 'queue', name: ref.queue })
    return ref.of === 'key' ? this.of({ of: 'job', name: ref.job }) : undefined
  }
}

interface Named {
  readonly scope: GateRef['of']
  readonly owner: string
  readonly name: string
}

export function refOf({ scope, owner, name }: Named): GateRef {
  if (scope === 'group') return { of: scope, queue: owner, name }
  return scope === 'key' ? { of: scope, job: owner, name } : { of: scope, name }
}

/** Names, groups and keys have no control characters. */
function keyOf(ref: GateRef): string {
  return `${ref.of}\n${ownerOf(ref)}\n${ref.name}`
}

function toGate(ref: GateRef, parent: Gate | undefined, row: GateRow): Gate {
  const gate = new Gate(ref, parent, parse<FlowSettings>(row.declared), parse<FlowSettings>(row.chosen))
  gate.pending = row.pending
  gate.parked = row.parked
  gate.running = row.running
  gate.lines = new Map(parse<[number, LineShare][]>(row.lines))
  gate.active = row.active === 1
  gate.dueAt = row.dueAt ?? undefined
  gate.idleAt = row.idleAt ?? undefined
  return Object.assign(gate, parse<Memory>(row.memory))
}

function linesText({ lines }: Gate): string | null {
  return lines.size === 0 ? null : JSON.stringify([...lines])
}

function settingsText(settings: FlowSettings): string | null {
  for (const _ in settings) return JSON.stringify(settings)
  return null
}

function memoryText({ starts, heldUntil, breaker, quarantine, full }: Gate): string | null {
  const nothing = starts === noStarts && breaker === closedBreaker && quarantine === noQuarantine
  if (nothing && heldUntil === 0 && full === 0) return null
  return JSON.stringify({ starts, heldUntil, breaker, quarantine, full } satisfies Memory)
}
