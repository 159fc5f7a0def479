import { MillraceError } from '../../core/errors.js'
import { TrafficControl } from '../../core/traffic/control.js'
import type { Gate } from '../../core/traffic/gate.js'
import type { DuePlace, Line, TrafficPlaces, TrafficSubject } from '../../core/traffic/places.js'
import type { GateRef } from '../../core/traffic/settings.js'
import type { Lease } from '../ledger/token.js'
import type { JobRowHead } from './claim.js'
import { GateTable, type StoredGate } from './gates.js'
import { type Positions, prepareAt } from './positions.js'
import { traffic as sql } from './sql.generated.js'
import type { Kind, Tables } from './tables.js'

/** A pending job that traffic control has in hand. */
export interface TrafficJob {
  readonly job: TrafficSubject
  rank: number
  seq: number
  gates?: readonly StoredGate[] | undefined
  /** For a job that is not stored yet: stores it with its turn and returns its position. */
  readonly create?: (turn: number) => number
  /** Its row, when it was read to be claimed. */
  readonly row?: JobRowHead
}

interface LineRow extends Omit<Line, 'isEmpty'> {
  readonly size: number
}

export class TrafficLine implements Line {
  readonly num: number
  readonly queue: string
  readonly lane: number
  readonly name: string
  served: number
  tag: number
  backTag: number
  /** Jobs that stand in it. */
  size: number

  constructor({ num, queue, lane, name, served, tag, backTag, size }: LineRow) {
    this.num = num
    this.queue = queue
    this.lane = lane
    this.name = name
    this.served = served
    this.tag = tag
    this.backTag = backTag
    this.size = size
  }

  get isEmpty(): boolean {
    return this.size === 0
  }
}

export type Traffic = TrafficControl<TrafficJob, TrafficLine, StoredGate>

/** Who hears of what traffic control does. */
export interface TrafficSignals {
  ready(queue: string): void
  breaker(job: string, phase: Gate['breaker']['phase']): void
  quarantine(job: string, on: boolean): void
}

interface SubjectRow {
  readonly seq: number
  readonly kind: number
  readonly grp: string | null
  readonly key: string | null
  readonly gated: number | null
  readonly turn: number | null
}

type Head = [...row: JobRowHead, grp: string | null, key: string | null, gated: number | null, rank: number]

/** Subjects per kind of job that are remembered, and claims whose jobs run. */
const mostRemembered = 10_000
const mostClaims = 1_000

export class Places implements TrafficPlaces<TrafficJob, TrafficLine, StoredGate> {
  readonly gates: GateTable
  /** Who else remembers gates must forget them too. */
  onForget: () => void = () => {}
  readonly #tables: Tables
  readonly #signals: TrafficSignals
  readonly #lines = new Map<string, TrafficLine[]>()
  readonly #changedLines = new Set<TrafficLine>()
  /** Jobs that this process runs, by their claims and positions: another job may get a position after them. */
  readonly #running = new Map<string, Map<number, TrafficSubject>>()
  readonly #known = new Map<number, Map<string, TrafficSubject>>()
  readonly #queuesOfJob = new Map<string, readonly string[]>()
  readonly #readQueuesOfJob
  readonly #readLines
  readonly #addLine
  readonly #writeLine
  readonly #heads
  readonly #leaveHeads
  readonly #stand
  readonly #setTurn
  readonly #firstParked
  readonly #remove
  readonly #subject
  readonly #subjects
  readonly #activeNames
  readonly #concernQueue
  readonly #concernJob
  readonly #runningOfQueue
  readonly #runningOfJob
  readonly #dataVersion
  #seenVersion: number | undefined
  #kindsSeen = 0
  /** Nothing of another connection can come in between: looked at since the transaction began. */
  #isFresh = false

  constructor(tables: Tables, signals: TrafficSignals) {
    const { db } = tables
    this.#tables = tables
    this.#signals = signals
    this.gates = new GateTable(db)
    this.#readQueuesOfJob = db.prepare<[string], string>(sql.queuesOfJob).pluck()
    this.#readLines = db.prepare<[number, number], LineRow>(sql.lines)
    this.#addLine = db.prepare<[number, number, string], number>(sql.addLine).pluck()
    this.#writeLine = db.prepare(sql.keepLine)
    this.#heads = db.prepare<[number, number], Head>(sql.heads).raw()
    this.#leaveHeads = db.prepare(sql.leaveHeads)
    this.#stand = db.prepare(sql.stand)
    this.#setTurn = db.prepare(sql.setTurn)
    this.#firstParked = db.prepare<[number, number], number>(sql.firstParked).pluck()
    this.#remove = db.prepare(sql.remove)
    this.#subject = db.prepare<[number], SubjectRow>(sql.subject)
    this.#subjects = prepareAt<SubjectRow>(db, sql.subjects)
    this.#activeNames = db.prepare<[string], string>(sql.activeNames).pluck()
    this.#concernQueue = db.prepare(sql.concernQueue)
    this.#concernJob = db.prepare(sql.concernJob)
    this.#runningOfQueue = db.prepare<[string], { kind: number; n: number }>(sql.runningOfQueue)
    this.#runningOfJob = db.prepare<[string], { kind: number; n: number }>(sql.runningOfJob)
    this.#dataVersion = db.prepare<[], number>('PRAGMA data_version').pluck()
  }

  findGate(ref: GateRef): StoredGate | undefined {
    this.refresh()
    return this.gates.find(ref)
  }

  gate(ref: GateRef): StoredGate {
    this.refresh()
    return this.gates.of(ref)
  }

  listGates(of: GateRef['of'], owner: string, name: string, limit: number): StoredGate[] {
    this.refresh()
    return this.gates.list(of, owner, name, limit)
  }

  keepGate(gate: StoredGate): void {
    this.gates.change(gate)
  }

  forgetGate(gate: StoredGate): void {
    this.gates.forget(gate)
  }

  dueGates(now: number, limit: number): StoredGate[] {
    this.refresh()
    return this.gates.due(now, limit)
  }

  dueLater(after: DuePlace, limit: number): StoredGate[] {
    this.refresh()
    return this.gates.dueLater(after, limit)
  }

  nextDue(): number | undefined {
    this.refresh()
    return this.gates.nextDue()
  }

  idleGates(now: number, limit: number): StoredGate[] {
    this.refresh()
    return this.gates.idle(now, limit)
  }

  lookAgainUnder(ref: GateRef, now: number): void {
    this.gates.lookAgainUnder(ref, now)
  }

  /** The lines of a lane, as they came. */
  lines(queueId: number, lane: number): readonly TrafficLine[] {
    this.refresh()
    const key = `${queueId}:${lane}`
    let lines = this.#lines.get(key)
    if (lines === undefined) {
      lines = this.#readLines.all(queueId, lane).map((row) => new TrafficLine(row))
      this.#lines.set(key, lines)
    }
    return lines
  }

  line(queue: string, lane: number, name: string): TrafficLine {
    const queueId = this.#tables.queueRow(queue)?.id as number
    const lines = this.lines(queueId, lane) as TrafficLine[]
    let line = lines.find((one) => one.name === name)
    if (line === undefined) {
      const num = this.#addLine.get(queueId, lane, name) as number
      line = new TrafficLine({ num, queue, lane, name, served: 0, tag: 0, backTag: 0, size: 0 })
      lines.push(line)
      this.concern({ of: 'queue', name: queue })
    }
    return line
  }

  keepLine(line: TrafficLine): void {
    this.#changedLines.add(line)
  }

  takeHeads(line: TrafficLine, count: number): TrafficJob[] {
    const heads = this.#heads.all(line.num, count)
    const last = heads.at(-1)
    if (last !== undefined) this.#leaveHeads.run(line.num, last[17], last[0])
    this.#countIn(line, -heads.length)
    return heads.map((head) => {
      const subject = this.subjectOf(this.#tables.kind(head[2]), head[14], head[15], head[16])
      return { job: subject, rank: head[17], seq: head[0], row: head as unknown as JobRowHead }
    })
  }

  stand(job: TrafficJob, line: TrafficLine): void {
    this.#place(job, job.rank)
    this.#stand.run(line.num, job.rank, job.seq)
    this.#countIn(line, 1)
  }

  park(job: TrafficJob, gate: StoredGate): void {
    this.#place(job, -job.rank)
    this.#stand.run(-this.gates.num(gate), job.rank, job.seq)
  }

  unpark(gate: StoredGate, line: number): TrafficJob | undefined {
    const behind = -this.gates.num(gate)
    const seq = this.#firstParked.get(behind, line)
    if (seq === undefined) return undefined
    this.#remove.run(behind, line, seq)
    return this.job(seq)
  }

  remove(job: TrafficJob): { line: number; behind: StoredGate | undefined } {
    const turn = (this.#subject.get(job.seq) as SubjectRow).turn as number
    const { queue, lane, name, traffic } = job.job
    if (turn < 0) {
      const gates = [
        traffic?.group === undefined ? undefined : this.gate({ of: 'group', queue, name: traffic.group }),
        traffic?.key === undefined ? undefined : this.gate({ of: 'key', job: name, name: traffic.key }),
      ]
      const behind = gates.find(
        (gate) => gate !== undefined && this.#remove.run(-this.gates.num(gate), -turn, job.seq).changes > 0,
      )
      if (behind === undefined) throw nowhere(job)
      return { line: -turn, behind }
    }
    const lines = this.lines(this.#tables.queueRow(queue)?.id as number, lane)
    const line = lines
      .filter((one) => one.name === '' || one.name === name)
      .find(({ num }) => this.#remove.run(num, turn, job.seq).changes > 0)
    if (line === undefined) throw nowhere(job)
    this.#countIn(line, -1)
    return { line: line.num, behind: undefined }
  }

  /** Where to note the jobs that a claim starts: what they belong to does not change while they run. */
  startedBy(claim: string): Map<number, TrafficSubject> {
    let started = this.#running.get(claim)
    if (started === undefined) {
      started = new Map()
      if (this.#running.size >= mostClaims) this.#running.clear()
      this.#running.set(claim, started)
    }
    return started
  }

  /** What traffic control knows these jobs of one claim by, whose leases have just ended; one object for all that are alike to it. */
  subjects(claim: string, leases: readonly Lease[], positions: Positions): TrafficSubject[] {
    const started = this.#running.get(claim)
    let stored: Map<number, SubjectRow> | undefined
    const subjects = leases.map(({ seq, kind }) => {
      const known = started?.get(seq)
      if (known !== undefined) {
        started?.delete(seq)
        return known
      }
      stored ??= new Map(this.#subjects.all([], positions).map((row) => [row.seq, row]))
      const row = stored.get(seq)
      return this.subjectOf(this.#tables.kind(kind), row?.grp ?? null, row?.key ?? null, row?.gated ?? null)
    })
    if (started?.size === 0) this.#running.delete(claim)
    return subjects
  }

  /** What is stored at this position. */
  job(seq: number): TrafficJob {
    const row = this.#subject.get(seq) as SubjectRow
    return { seq, rank: 0, job: this.subjectOf(this.#tables.kind(row.kind), row.grp, row.key, row.gated) }
  }

  /** Remembered for those with a group or key, of which there are fewer than jobs. */
  subjectOf(kind: Kind, group: string | null, key: string | null, gated: number | null): TrafficSubject {
    let members = this.#known.get(kind.id)
    if (members === undefined) {
      members = new Map()
      this.#known.set(kind.id, members)
    }
    const belongs = key === null ? (group ?? '') : `${group ?? ''}\n${key}`
    let subject = members.get(belongs)
    if (subject === undefined || (subject.traffic?.gated === true) !== (gated === 1)) {
      const plain = group === null && key === null && gated === null
      const traffic = plain
        ? undefined
        : { gated: gated === 1, group: group ?? undefined, key: key ?? undefined }
      subject = { name: kind.name, queue: kind.queue, lane: kind.lane, traffic }
      if (members.size >= mostRemembered) members.clear()
      members.set(belongs, subject)
    }
    return subject
  }

  activeGates(of: 'queue' | 'job'): StoredGate[] {
    this.refresh()
    return this.#activeNames.all(of).map((name) => this.gates.of({ of, name }))
  }

  running(ref: GateRef): number {
    const rows = (ref.of === 'queue' ? this.#runningOfQueue : this.#runningOfJob).all(ref.name)
    const stored = rows.reduce((sum, { n }) => sum + n, 0)
    const matches = (kind: Kind) => (ref.of === 'queue' ? kind.queue : kind.name) === ref.name
    return stored + this.#tables.tally.change('running', (kind) => matches(this.#tables.kind(kind)))
  }

  concern(ref: GateRef): void {
    if (ref.of === 'queue') {
      this.#tables.addQueue(ref.name)
      this.#concernQueue.run(ref.name)
    } else {
      // New kinds of the definition ask the stored gate.
      this.gates.write()
      this.#concernJob.run(ref.name)
    }
    this.#tables.forgetQueues()
  }

  ready({ queue, name }: TrafficSubject): void {
    this.#signals.ready(queue)
    if (this.#kindsSeen !== this.#tables.kindsAdded) this.#queuesOfJob.clear()
    this.#kindsSeen = this.#tables.kindsAdded
    let queues = this.#queuesOfJob.get(name)
    if (queues === undefined) {
      queues = this.#readQueuesOfJob.all(name)
      this.#queuesOfJob.set(name, queues)
    }
    for (const other of queues) this.#signals.ready(other)
  }

  breakerChanged(job: string, gate: StoredGate): void {
    this.#signals.breaker(job, gate.breaker.phase)
  }

  quarantined(job: string, on: boolean): void {
    this.#signals.quarantine(job, on)
  }

  /** The last thing a transaction does. */
  write(): void {
    this.gates.write()
    for (const line of this.#changedLines)
      this.#writeLine.run(line.served, line.tag, line.backTag, line.size, line.num)
    this.#changedLines.clear()
    this.#isFresh = false
    if (this.gates.isLarge) this.forget()
  }

  forget(): void {
    this.onForget()
    this.gates.forgetAll()
    this.#known.clear()
    this.#lines.clear()
    this.#queuesOfJob.clear()
    this.#changedLines.clear()
    this.#isFresh = false
    this.#seenVersion = undefined
  }

  /** What another connection wrote since makes all that is remembered old. */
  refresh(): void {
    if (this.#isFresh) return
    const version = this.#dataVersion.get() as number
    if (version !== this.#seenVersion) this.forget()
    this.#seenVersion = version
    this.#isFresh = this.#tables.db.inTransaction
  }

  #countIn(line: TrafficLine, change: number): void {
    line.size += change
    this.keepLine(line)
  }

  /** `turn`: in its line; of a parked job, the line that it belongs in as a negative number. */
  #place(job: TrafficJob, turn: number): void {
    if (job.create !== undefined && job.seq === 0) job.seq = job.create(turn)
    else this.#setTurn.run(turn, job.seq)
  }
}

/** Better no change than one that makes it worse. */
function nowhere({ seq, job }: TrafficJob): MillraceError {
  return new MillraceError(
    'STORE_CORRUPT',
    `the pending job '${job.name}' at position ${seq} of queue '${job.queue}' stands in no line`,
  )
}

export function makeTraffic(tables: Tables, signals: TrafficSignals): { traffic: Traffic; places: Places } {
  const places = new Places(tables, signals)
  const traffic: Traffic = new TrafficControl<TrafficJob, TrafficLine, StoredGate>(places)
  places.onForget = () => traffic.forget()
  return { traffic, places }
}
