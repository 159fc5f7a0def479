/**
 * Schedules: named recurrences, each of whose slots fires exactly one job. The store keeps them and names those
 * whose slot has come; what a slot is and what it fires is decided in recurrence.ts and firing.ts. A worker that
 * found a slot due answers with an `advance`, which is refused unless the schedule still stands at that slot; so
 * it does not matter how many workers try.
 */
import type { NewJob } from './job.js'

export interface ScheduleRecord {
  readonly name: string
  /** When it recurs, as JSON; see `Recurrence`. Opaque to a store, which only compares it. */
  readonly rule: string
  /** What it fires and how, as JSON; see `ScheduleSpec`. Opaque to a store. */
  readonly spec: string
  /** Another one after each `put`, pause and resume that changed something. */
  readonly revision: string
  readonly paused: boolean
  /** The slot that it stands at, which has not fired; undefined while fresh or paused, and when there is none. */
  readonly slot: number | undefined
  /** It has not been told its first slot since `since`. */
  readonly fresh: boolean
  /** The time by which it was told where it stands, or made fresh: put with this rule, or resumed. */
  readonly since: number
  /** Up to where slots had been dealt with when the clock was set back far: those are not caught up on. */
  readonly ahead: number | undefined
  /** Slots that fired since it was put with this rule. */
  readonly fired: number
  /** The newest slot that ever fired. It never fires again, nor does one before it, but see `isStranded`. */
  readonly lastSlot: number | undefined
  readonly lastJob: string | undefined
  readonly createdAt: number
  readonly changedAt: number
}

/** One whose slot has come, or that waits for its first one. */
export interface DueSchedule extends ScheduleRecord {
  /** The store's clock. */
  readonly now: number
}

export type ScheduleChange =
  /**
   * Adds it, fresh; as it stands already, changes nothing. Another rule begins afresh; with the same rule and
   * another spec it goes on from where it stands, and is fresh only if it had come to its end.
   */
  | {
      readonly do: 'put'
      readonly name: string
      readonly rule: string
      readonly spec: string
      readonly revision: string
    }
  /**
   * Goes on from `from`, the slot that it stands at (undefined: it is fresh, or stranded at its end), to `to`;
   * applied only if that and the revision are still so, and it is not paused.
   */
  | {
      readonly do: 'advance'
      readonly name: string
      readonly revision: string
      readonly from: number | undefined
      /** The same of `since`: a clock that is set back brings it to the same slot again. */
      readonly since: number
      readonly to: number | undefined
      /** The store's time by which that was worked out. */
      readonly at: number
      /** What the slots passed fire, one each, whether or not their queue is full. */
      readonly jobs: readonly NewJob[]
      /** The last slot that fires. */
      readonly lastSlot: number | undefined
    }
  /** Slots that come while it is paused are dropped: resumed, it is fresh. */
  | { readonly do: 'pause'; readonly name: string; readonly paused: boolean; readonly revision: string }
  | { readonly do: 'remove'; readonly name: string }

/** `same`: nothing had to change. `lost`: an advance that came too late. */
export interface ScheduleResult {
  readonly status: 'applied' | 'same' | 'lost' | 'missing'
  /** As it stands now; undefined when there is none. */
  readonly record: ScheduleRecord | undefined
}

/** What a change makes of a schedule. A store writes that when it is `applied`, with the jobs of an advance. */
export function changeSchedule(
  old: ScheduleRecord | undefined,
  change: ScheduleChange,
  now: number,
): ScheduleResult {
  if (old === undefined)
    return change.do === 'put'
      ? { status: 'applied', record: newSchedule(change, now) }
      : { status: 'missing', record: undefined }
  switch (change.do) {
    case 'put':
      if (old.rule === change.rule && old.spec === change.spec) return { status: 'same', record: old }
      return { status: 'applied', record: putOver(old, change, now) }
    case 'advance':
      if (!standsAt(old, change)) return { status: 'lost', record: old }
      return { status: 'applied', record: advanced(old, change) }
    case 'pause':
      if (old.paused === change.paused) return { status: 'same', record: old }
      return { status: 'applied', record: pausedOrResumed(old, change, now) }
    case 'remove':
      return { status: 'applied', record: undefined }
  }
}

type Change<Do extends ScheduleChange['do']> = Extract<ScheduleChange, { do: Do }>

function newSchedule({ name, rule, spec, revision }: Change<'put'>, now: number): ScheduleRecord {
  return {
    name,
    rule,
    spec,
    revision,
    paused: false,
    slot: undefined,
    fresh: true,
    since: now,
    ahead: undefined,
    fired: 0,
    lastSlot: undefined,
    lastJob: undefined,
    createdAt: now,
    changedAt: now,
  }
}

function putOver(old: ScheduleRecord, { rule, spec, revision }: Change<'put'>, now: number): ScheduleRecord {
  const changed = { ...old, rule, spec, revision, changedAt: now }
  if (rule !== old.rule) return afresh({ ...changed, fired: 0 }, now)
  return old.slot === undefined && !old.fresh ? afresh(changed, now) : changed
}

function pausedOrResumed(
  old: ScheduleRecord,
  { paused, revision }: Change<'pause'>,
  now: number,
): ScheduleRecord {
  return afresh({ ...old, paused, revision, changedAt: now }, now)
}

/** A paused one waits for its resumption, which makes it fresh. */
function afresh(schedule: ScheduleRecord, now: number): ScheduleRecord {
  return { ...toldAt(schedule, now), slot: undefined, fresh: !schedule.paused }
}

/** Whether it still stands where the worker saw it. */
function standsAt(schedule: ScheduleRecord, change: Change<'advance'>): boolean {
  const { revision, paused, fresh, slot, since } = schedule
  if (revision !== change.revision || paused || slot !== change.from || since !== change.since) return false
  return slot !== undefined || fresh || isStranded(schedule, change.at)
}

function advanced(old: ScheduleRecord, { to, at, jobs, lastSlot = 0 }: Change<'advance'>): ScheduleRecord {
  const moved = { ...toldAt(old, at), slot: to, fresh: false, fired: old.fired + jobs.length }
  const isNewest = jobs.length > 0 && lastSlot > (old.lastSlot ?? 0)
  return isNewest ? { ...moved, lastSlot, lastJob: jobs.at(-1)?.id } : moved
}

function toldAt(schedule: ScheduleRecord, now: number): ScheduleRecord {
  const { since, slot } = schedule
  if (!isFarBack(since, now)) return { ...schedule, since: now }
  const dealtWith = slot === undefined ? since : Math.min(since, slot - 1)
  return { ...schedule, since: now, ahead: Math.max(schedule.ahead ?? 0, dealtWith) }
}

/** When it is worth a look: at its slot, at once while fresh, never otherwise. */
export function lookAt({ fresh, slot }: ScheduleRecord): number | undefined {
  return fresh ? 0 : slot
}

/** To wait until a clock that was set back by less is there again fires no slot twice, and takes no longer. */
export const farBackMs = 86_400_000

export function isFarBack(from: number, to: number): boolean {
  return from - to > farBackMs
}

/**
 * The clock was set back so far, since the schedule was told where it stands, that it would wait for very long. The
 * clock was ahead then, or is behind now: a store names such a schedule too, and it goes on from the present.
 */
export function isStranded({ paused, since }: ScheduleRecord, now: number): boolean {
  return !paused && isFarBack(since, now)
}
