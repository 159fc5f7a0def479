import { bounds } from '../../core/bounds.js'
import {
  changeSchedule,
  type DueSchedule,
  farBackMs,
  lookAt,
  type ScheduleChange,
  type ScheduleRecord,
  type ScheduleResult,
} from '../../core/schedule.js'
import { insertFromHandler } from './insert.js'
import type { Book, Shelf } from './shelf.js'
import type { Tables } from './tables.js'

/** A schedule and its place in one of the orders. */
export interface ScheduleEntry {
  readonly record: ScheduleRecord
  readonly rank: number
  readonly seq: number
}

export interface KeptSchedule {
  readonly record: ScheduleRecord
  readonly look: ScheduleEntry
  readonly told: ScheduleEntry
}

/** Schedules by name, by when they are worth a look, and by when they were told where they stand. */
export class Schedules {
  readonly #byName: Book<KeptSchedule>
  readonly #byLook: Shelf<ScheduleEntry>
  readonly #byTold: Shelf<ScheduleEntry>
  readonly #nextSeq: () => number

  constructor(
    byName: Book<KeptSchedule>,
    byLook: Shelf<ScheduleEntry>,
    byTold: Shelf<ScheduleEntry>,
    nextSeq: () => number,
  ) {
    this.#byName = byName
    this.#byLook = byLook
    this.#byTold = byTold
    this.#nextSeq = nextSeq
  }

  get(name: string): ScheduleRecord | undefined {
    return this.#byName.get(name)?.record
  }

  set(record: ScheduleRecord): void {
    this.delete(record.name)
    const kept = keptSchedule(record, this.#nextSeq())
    const { look, told } = kept
    this.#byName.set(record.name, kept)
    if (look.rank < Number.POSITIVE_INFINITY) this.#byLook.add(look)
    if (!record.paused) this.#byTold.add(told)
  }

  delete(name: string): void {
    const entries = this.#byName.get(name)
    if (entries === undefined) return
    this.#byName.delete(name)
    this.#byLook.delete(entries.look)
    this.#byTold.delete(entries.told)
  }

  due(now: number, limit: number): DueSchedule[] {
    const due: DueSchedule[] = []
    for (const { record, rank } of this.#byLook.after(-1, 0, limit + 1)) {
      if (rank > now || due.length === limit) break
      due.push({ ...record, now })
    }
    return due
  }

  /** Those that the clock was set back behind and that are not due. */
  stranded(now: number, limit: number): DueSchedule[] {
    const stranded: DueSchedule[] = []
    for (const { record } of this.#byTold.after(now + farBackMs, Number.POSITIVE_INFINITY, limit)) {
      if (stranded.length >= limit) break
      if ((lookAt(record) ?? Number.POSITIVE_INFINITY) > now) stranded.push({ ...record, now })
    }
    return stranded
  }

  /** When the first that is not due yet will be. */
  nextAfter(now: number): number | undefined {
    const [next] = this.#byLook.after(now, Number.POSITIVE_INFINITY, 1)
    return next?.rank
  }
}

export function keptSchedule(record: ScheduleRecord, seq: number): KeptSchedule {
  const look = { record, rank: lookAt(record) ?? Number.POSITIVE_INFINITY, seq }
  const told = { record, rank: record.since, seq }
  return { record, look, told }
}

export function schedule(tables: Tables, changes: readonly ScheduleChange[], now: number): ScheduleResult[] {
  tables.needRoom(
    changes.reduce((sum, change) => sum + (change.do === 'advance' ? change.jobs.length : 0), 0),
  )
  const results: ScheduleResult[] = []
  tables.each(changes, (change) => results.push(apply(tables, change, now)))
  return results
}

function apply(tables: Tables, change: ScheduleChange, now: number): ScheduleResult {
  const { schedules, signals } = tables
  const result = changeSchedule(schedules.get(change.name), change, now)
  if (result.status !== 'applied') return result
  if (change.do === 'advance') insertFromHandler(tables, change.jobs, undefined, now)
  if (result.record === undefined) schedules.delete(change.name)
  else schedules.set(result.record)
  const at = result.record && lookAt(result.record)
  if (at !== undefined) signals.due(Math.max(0, at - now))
  return result
}

export function dueSchedules({ schedules }: Tables, now: number, limit: number) {
  const most = Math.min(limit, bounds.schedules)
  const due = schedules.due(now, most)
  due.push(...schedules.stranded(now, most - due.length))
  const next = schedules.nextAfter(now)
  return {
    due,
    nextSlot: next === undefined ? undefined : next - now,
    more: due.length === most,
  }
}
