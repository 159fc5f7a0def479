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
import type { SchedulePage, ScheduleQuery } from '../../core/store.js'
import type { Insert, Told } from './insert.js'
import { schedule as sql } from './sql.generated.js'
import type { Tables } from './tables.js'

interface ScheduleRow {
  readonly name: string
  readonly rule: string
  readonly spec: string
  readonly revision: string
  readonly paused: number
  readonly fresh: number
  readonly slot: number | null
  readonly since: number
  readonly ahead: number | null
  readonly fired: number
  readonly last_slot: number | null
  readonly last_job: string | null
  readonly created_at: number
  readonly changed_at: number
}

/** Changes schedules inside the current transaction. */
export function makeSchedule(
  { db, clock }: Tables,
  insert: Insert,
  signals: Told,
): (changes: readonly ScheduleChange[]) => ScheduleResult[] {
  const find = db.prepare<[string], ScheduleRow>(sql.find)
  const writeRow = db.prepare(sql.write)
  const advanceRow = db.prepare(sql.advance)
  const removeRow = db.prepare(sql.remove)

  return (changes) => changes.map((change) => apply(change, clock.now()))

  function apply(change: ScheduleChange, now: number): ScheduleResult {
    const row = find.get(change.name)
    const result = changeSchedule(row && toRecord(row), change, now)
    if (result.status !== 'applied') return result
    if (change.do === 'advance') insert.fromHandler(change.jobs, undefined)
    if (result.record === undefined) removeRow.run(change.name)
    else if (change.do === 'advance') advance(result.record)
    else write(result.record)
    const at = result.record && lookAt(result.record)
    if (at !== undefined) signals.due(Math.max(0, at - now))
    return result
  }

  function write(record: ScheduleRecord): void {
    writeRow.run(
      record.name,
      record.rule,
      record.spec,
      record.revision,
      record.paused ? 1 : 0,
      record.fresh ? 1 : 0,
      record.slot ?? null,
      lookAt(record) ?? null,
      record.since,
      record.ahead ?? null,
      record.fired,
      record.createdAt,
      record.changedAt,
    )
  }

  /** Leaves rule and spec alone, which may be long. */
  function advance({ name, slot, since, ahead, fired, lastSlot, lastJob }: ScheduleRecord): void {
    const [at, until, last] = [slot ?? null, ahead ?? null, lastSlot ?? null]
    advanceRow.run(at, at, since, until, fired, last, lastJob ?? null, name)
  }
}

export interface ReadSchedules {
  due(now: number, limit: number): { due: DueSchedule[]; nextSlot: number | undefined; more: boolean }
  page(query: ScheduleQuery): SchedulePage
}

export function makeReadSchedules({ db, clock }: Tables): ReadSchedules {
  const due = db.prepare<[number, number], ScheduleRow>(sql.due)
  const stranded = db.prepare<[number, number, number], ScheduleRow>(sql.stranded)
  const next = db.prepare<[number], number | null>(sql.next).pluck()
  const page = db.prepare<[string, number], ScheduleRow>(sql.page)
  const named = db.prepare<[string, string, number], ScheduleRow>(sql.named)

  return {
    due(now, limit) {
      const most = Math.min(limit, bounds.schedules)
      const rows = due.all(now, most)
      rows.push(...stranded.all(now + farBackMs, now, most - rows.length))
      const nextAt = next.get(now) ?? undefined
      return {
        due: rows.map((row) => ({ ...toRecord(row), now })),
        nextSlot: nextAt === undefined ? undefined : nextAt - now,
        more: rows.length === most,
      }
    },
    page({ names, limit, cursor = '' }) {
      const rows =
        names === undefined
          ? page.all(cursor, limit + 1)
          : named.all(JSON.stringify(names), cursor, limit + 1)
      const schedules = rows.slice(0, limit).map(toRecord)
      const more = rows.length > limit
      return { schedules, cursor: more ? schedules.at(-1)?.name : undefined, now: clock.now() }
    },
  }
}

function toRecord(row: ScheduleRow): ScheduleRecord {
  return {
    name: row.name,
    rule: row.rule,
    spec: row.spec,
    revision: row.revision,
    paused: row.paused === 1,
    slot: row.slot ?? undefined,
    fresh: row.fresh === 1,
    since: row.since,
    ahead: row.ahead ?? undefined,
    fired: row.fired,
    lastSlot: row.last_slot ?? undefined,
    lastJob: row.last_job ?? undefined,
    createdAt: row.created_at,
    changedAt: row.changed_at,
  }
}
