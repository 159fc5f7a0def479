import { closedBreaker } from '../../core/traffic/breaker.js'
import { Gate, type LineShare } from '../../core/traffic/gate.js'
import type { DuePlace } from '../../core/traffic/places.js'
import { noQuarantine } from '../../core/traffic/quarantine.js'
import { noStarts } from '../../core/traffic/rate.js'
import { noSpan } from '../../core/traffic/set-back.js'
import { type GateRef, ownerOf, type TrafficSettings } from '../../core/traffic/settings.js'
import type { Database } from '../../databases/sqlite/connection.js'
import { parse } from './parse.js'
import { traffic as sql } from './sql.generated.js'

/** A gate with its number, once it is stored. Parked jobs stand under the negative of it. */
export class StoredGate extends Gate {
  isChanged = false
  /** What is stored of that which seldom changes. */
  stored: Seldom | undefined = undefined
}

/** Most jobs of a group change none of it: then no index is touched. */
type Seldom = Pick<Gate, 'parked' | 'active' | 'dueAt' | 'idleAt' | 'declared' | 'chosen'>

function seldom({ parked, active, dueAt, idleAt, declared, chosen }: Gate): Seldom {
  return { parked, active, dueAt, idleAt, declared, chosen }
}

function isStored(gate: StoredGate): boolean {
  const { stored } = gate
  return (
    stored !== undefined &&
    stored.parked === gate.parked &&
    stored.dueAt === gate.dueAt &&
    stored.idleAt === gate.idleAt &&
    stored.active === gate.active &&
    stored.declared === gate.declared &&
    stored.chosen === gate.chosen
  )
}

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

type Memory = Pick<Gate, 'starts' | 'hold' | 'breaker' | 'quarantine' | 'reserved' | 'full'>

/** More than this many are not remembered from one transaction to the next. */
const mostRemembered = 20_000

/**
 * Gates of this process's transactions: read when they are needed, written once at the end, and remembered as
 * long as no other connection has written to the file.
 */
export class GateTable {
  /** By scope, owner and name; null for one that does not exist. */
  readonly #known = new Map<string, Map<string, Map<string, StoredGate | null>>>()
  #changed: StoredGate[] = []
  #remembered = 0
  readonly #read
  readonly #insert
  readonly #updateOften
  readonly #updateSeldom
  readonly #remove
  readonly #due
  readonly #dueLater
  readonly #idle
  readonly #nextDue
  readonly #lookAgain
  readonly #list

  constructor(db: Database) {
    this.#read = db.prepare<[string, string, string], GateRow>(sql.gate)
    this.#insert = db.prepare<[string, string, string], number>(sql.addGate).pluck()
    this.#updateOften = db.prepare(sql.keepOften)
    this.#updateSeldom = db.prepare(sql.keepSeldom)
    this.#remove = db.prepare(sql.forgetGate)
    this.#due = db.prepare<[number, number], Named>(sql.due)
    this.#dueLater = db.prepare<[number, number, number], Named>(sql.dueLater)
    this.#idle = db.prepare<[number, number], Named>(sql.idle)
    this.#nextDue = db.prepare<[number], Named & { dueAt: number }>(sql.nextDue)
    this.#lookAgain = db.prepare(sql.lookAgain)
    this.#list = db.prepare<[string, string, string, number], { owner: string; name: string }>(sql.gates)
  }

  find(ref: GateRef): StoredGate | undefined {
    const members = this.#members(ref)
    const known = members.get(ref.name)
    if (known !== undefined) return known ?? undefined
    const row = this.#read.get(ref.of, ownerOf(ref), ref.name)
    const gate = row === undefined ? null : toGate(ref, this.#parent(ref), row)
    members.set(ref.name, gate)
    this.#remembered++
    return gate ?? undefined
  }

  /** Made on first use; stored once it is changed. */
  of(ref: GateRef): StoredGate {
    const found = this.find(ref)
    if (found !== undefined) return found
    const gate = new StoredGate(ref, this.#parent(ref))
    this.#members(ref).set(ref.name, gate)
    return gate
  }

  num(gate: StoredGate): number {
    gate.num ??= this.#insert.get(gate.ref.of, ownerOf(gate.ref), gate.ref.name) as number
    return gate.num
  }

  change(gate: StoredGate): void {
    if (gate.isChanged) return
    gate.isChanged = true
    this.#changed.push(gate)
  }

  forget(gate: StoredGate): void {
    this.#members(gate.ref).set(gate.ref.name, null)
    gate.isChanged = false
    if (gate.num !== undefined) this.#remove.run(gate.num)
  }

  /** Those whose time has come, as far as this transaction has brought them. */
  due(now: number, limit: number): StoredGate[] {
    const stored = this.#due.all(now, limit + this.#changed.length).map((named) => this.find(refOf(named)))
    return [...new Set([...stored, ...this.#changed])]
      .filter((gate) => gate !== undefined && gate.dueAt !== undefined && gate.dueAt <= now)
      .sort(byDue)
      .slice(0, limit) as StoredGate[]
  }

  /** As stored. */
  dueLater({ dueAt, num }: DuePlace, limit: number): StoredGate[] {
    return this.#dueLater.all(dueAt, num, limit).flatMap((named) => this.find(refOf(named)) ?? [])
  }

  /** Those that only time has kept until now, as stored. */
  idle(now: number, limit: number): StoredGate[] {
    return this.#idle.all(now, limit).flatMap((named) => this.find(refOf(named)) ?? [])
  }

  /** Of what is stored, and of what this transaction has made of it. */
  nextDue(): number | undefined {
    const rows = this.#nextDue.all(this.#changed.length + 1)
    let next = rows.find((named) => this.find(refOf(named))?.isChanged === false)?.dueAt
    for (const { isChanged, dueAt } of this.#changed) {
      if (isChanged && dueAt !== undefined && (next === undefined || dueAt < next)) next = dueAt
    }
    return next
  }

  /** One statement, however many they are; what is known of them is old then. */
  lookAgainUnder(ref: GateRef, now: number): void {
    if (ref.of !== 'queue' && ref.of !== 'job') return
    const scope = ref.of === 'queue' ? 'group' : 'key'
    this.write()
    this.#lookAgain.run(now, scope, ref.name)
    this.#known.get(scope)?.delete(ref.name)
  }

  /** Of one scope, by owner and name, behind this place. */
  list(of: GateRef['of'], owner: string, name: string, limit: number): StoredGate[] {
    const rows = this.#list.all(of, owner, name, limit)
    return rows.flatMap((row) => this.find(refOf({ scope: of, ...row })) ?? [])
  }

  /** The last thing a transaction does. */
  write(): void {
    for (const gate of this.#changed) if (gate.isChanged) this.#writeOne(gate)
    this.#changed = []
  }

  /** It remembers more than it should from one transaction to the next. */
  get isLarge(): boolean {
    return this.#remembered > mostRemembered
  }

  forgetAll(): void {
    this.#known.clear()
    this.#remembered = 0
    this.#changed = []
  }

  #writeOne(gate: StoredGate): void {
    gate.isChanged = false
    this.#updateOften.run(gate.pending, gate.running, linesText(gate.lines), memoryText(gate), this.num(gate))
    if (isStored(gate)) return
    gate.stored = seldom(gate)
    this.#updateSeldom.run(
      gate.parked,
      gate.active ? 1 : 0,
      gate.dueAt ?? null,
      gate.idleAt ?? null,
      settingsText(gate.declared),
      settingsText(gate.chosen),
      gate.num,
    )
  }

  #members(ref: GateRef): Map<string, StoredGate | null> {
    let owners = this.#known.get(ref.of)
    if (owners === undefined) {
      owners = new Map()
      this.#known.set(ref.of, owners)
    }
    const owner = ownerOf(ref)
    let members = owners.get(owner)
    if (members === undefined) {
      members = new Map()
      owners.set(owner, members)
    }
    return members
  }

  #parent(ref: GateRef): StoredGate | undefined {
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

function byDue(a: StoredGate | undefined, b: StoredGate | undefined): number {
  const last = Number.MAX_SAFE_INTEGER
  return (a?.dueAt ?? last) - (b?.dueAt ?? last) || (a?.num ?? last) - (b?.num ?? last)
}

function toGate(ref: GateRef, parent: Gate | undefined, row: GateRow): StoredGate {
  const gate = new StoredGate(
    ref,
    parent,
    parse<TrafficSettings>(row.declared),
    parse<TrafficSettings>(row.chosen),
  )
  gate.num = row.num
  gate.pending = row.pending
  gate.parked = row.parked
  gate.running = row.running
  gate.lines = readLines(row.lines)
  gate.active = row.active === 1
  gate.dueAt = row.dueAt ?? undefined
  gate.idleAt = row.idleAt ?? undefined
  gate.stored = seldom(gate)
  return Object.assign(gate, parse<Memory>(row.memory))
}

/** Numbers alone, because it is written for every job of a group. */
function linesText(lines: ReadonlyMap<number, LineShare>): string | null {
  let text = ''
  for (const [line, { tag, backTag, standing, parked }] of lines) {
    text += `${text === '' ? '' : ' '}${line} ${tag} ${backTag} ${standing} ${parked}`
  }
  return text === '' ? null : text
}

function readLines(text: string | null): Map<number, LineShare> {
  const lines = new Map<number, LineShare>()
  const numbers = text === null ? [] : text.split(' ').map(Number)
  for (let i = 0; i < numbers.length; i += 5) {
    const [line, tag, backTag, standing, parked] = numbers.slice(i, i + 5) as [
      number,
      number,
      number,
      number,
      number,
    ]
    lines.set(line, { tag, backTag, standing, parked })
  }
  return lines
}

function settingsText(settings: TrafficSettings): string | null {
  for (const _ in settings) return JSON.stringify(settings)
  return null
}

function memoryText({ starts, hold, breaker, quarantine, reserved, full }: Gate): string | null {
  const isOpen = starts === noStarts && hold === noSpan && breaker === closedBreaker
  if (isOpen && quarantine === noQuarantine && reserved === undefined && full === 0) return null
  return JSON.stringify({ starts, hold, breaker, quarantine, reserved, full } satisfies Memory)
}
