import { bounds } from '../../core/bounds.js'
import {
  changeSchedule,
  type DueSchedule,
  lookAt,
  type ScheduleChange,
  type ScheduleRecord,
  type ScheduleResult,
} from '../../core/schedule.js'
import type { SchedulePage, ScheduleQuery } from '../../core/store.js'
import { insertFromHandler } from './insert.js'
import { Sorted } from './sorted.js'
import type { Tables } from './tables.js'

/** A schedule and its place among those that are worth a look at some time. */
interface Entry {
  readonly record: ScheduleRecord
  readonly rank: number
  readonly seq: number
}

/** Schedules by name, and by when they are worth a look. */
export class Schedules {
  readonly #byName = new Map<string, Entry>()
  readonly #byLook = new Sorted<Entry>()
  #seq = 0

  get(name: string): ScheduleRecord | undefined {
    return this.#byName.get(name)?.record
  }

  set(record: ScheduleRecord): void {
    this.delete(record.name)
    const entry = { record, rank: lookAt(record) ?? Number.POSITIVE_INFINITY, seq: ++this.#seq }
    this.#byName.set(record.name, entry)
    if (entry.rank < Number.POSITIVE_INFINITY) this.#byLook.add(entry)
  }

  delete(name: string): void {
    const entry = this.#byName.get(name)
    if (entry === undefined) return
    this.#byName.delete(name)
    this.#byLook.delete(entry)
  }

  due(now: number, limit: number): DueSchedule[] {
    const due: DueSchedule[] = []
    for (const { record, rank } of this.#byLook.after(-1, 0)) {
      if (rank > now || due.length === limit) break
      due.push({ ...record, now })
    }
    return due
  }

  /** When the first that is not due yet will be. */
  nextAfter(now: number): number | undefined {
    return this.#byLook.after(now, Number.POSITIVE_INFINITY).next().value?.rank
  }

  page({ names, limit, cursor = '' }: ScheduleQuery): Omit<SchedulePage, 'now'> {
    const wanted = [...(names ?? this.#byName.keys())].filter((name) => name > cursor).sort()
    const found = wanted.map((name) => this.get(name)).filter((record) => record !== undefined)
    const schedules = found.slice(0, limit)
    return { schedules, cursor: found.length > limit ? schedules.at(-1)?.name : undefined }
  }
}

export function schedule(tables: Tables, changes: readonly ScheduleChange[], now: number): ScheduleResult[] {
  tables.needRoom(
    changes.reduce((sum, change) => sum + (change.do === 'advance' ? change.jobs.length : 0), 0),
  )
  return changes.map((change) => apply(tables, change, now))
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
  const due = schedules.due(now, Math.min(limit, bounds.schedules))
  const next = schedules.nextAfter(now)
  return {
    due,
    nextSlot: next === undefined ? undefined : next - now,
    more: due.length === Math.min(limit, bounds.schedules),
  }
}
