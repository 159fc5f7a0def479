/**
 * What a due schedule fires and which slot is next. Pure: from what the store said, so all workers decide alike
 * and the first answer is as good as any other.
 */
import { bounds } from './bounds.js'
import type { NewJob } from './job.js'
import { newestSlot, type Recurrence, slotAfter, slotsAfter } from './recurrence.js'
import {
  type DueSchedule,
  isFarBack,
  isStranded,
  type ScheduleChange,
  type ScheduleRecord,
} from './schedule.js'
import { spread } from './spread.js'

export const catchUps = ['skip', 'last', 'all'] as const
/** Which slots that were missed, because no worker ran, fire later: none, the newest, or each. */
export type CatchUp = (typeof catchUps)[number]

/** All that a worker needs, whether or not it knows the definition. */
export interface ScheduleSpec {
  readonly catchUp: CatchUp
  /** Milliseconds below which each slot's job is put off. */
  readonly jitter: number
  /** The most slots that fire. */
  readonly limit: number | undefined
  readonly job: ScheduledJob
}

/** What the jobs of all slots have in common. */
export type ScheduledJob = Omit<NewJob, 'id' | 'delay' | 'runAt' | 'family'>

export interface Advance {
  readonly change: Extract<ScheduleChange, { do: 'advance' }>
  /** Slots that have passed and do not fire. */
  readonly missed: Missed | undefined
  /** The clock was set back far, and it has left where it stood. */
  readonly setBack: boolean
}

export interface Missed {
  readonly since: number
  /** The slots before this time. */
  readonly before: number
}

/** A slot this late was not missed: nobody is that punctual. */
const punctualMs = 60_000

export function planAdvance(due: DueSchedule): Advance {
  const spec = readSpec(due)
  const rule = readRule(due)
  if (due.slot === undefined || due.slot > due.now) return standAnew(due, rule, spec)
  const left = slotsLeft(due, spec)
  const { slots, next, missed } = passedSince(due.slot, due, rule, spec)
  const fired = slots.slice(0, left)
  return {
    change: {
      ...moveTo(due, fired.length === left ? undefined : next),
      jobs: fired.map((slot) => slotJob(due.name, spec, slot)),
      lastSlot: fired.at(-1),
    },
    missed,
    setBack: false,
  }
}

/** One that is fresh is told its first slot; one that the clock has left behind, the first that is to come now. */
function standAnew(due: DueSchedule, rule: Recurrence, spec: ScheduleSpec): Advance {
  const stranded = isStranded(due, due.now)
  const to = firstSlot(stranded ? { ...due, since: due.now } : due, rule, spec)
  return { change: moveTo(due, to), missed: undefined, setBack: stranded && to !== due.slot }
}

/** The slot that fires next: the one that it stands at, or that a fresh one is to be told. */
export function nextSlot(schedule: ScheduleRecord): number | undefined {
  const spec = readSpec(schedule)
  if (schedule.fresh) return firstSlot(schedule, readRule(schedule), spec)
  return slotsLeft(schedule, spec) === 0 ? undefined : schedule.slot
}

/** A fresh one that has not fired since it recurs as it does, and has no slot to come. */
export function neverFires(schedule: ScheduleRecord): boolean {
  return schedule.fired === 0 && nextSlot(schedule) === undefined
}

/** How many more may fire; the limit may have been lowered since. */
export function slotsLeft({ fired }: ScheduleRecord, { limit }: ScheduleSpec): number {
  return limit === undefined ? Number.POSITIVE_INFINITY : Math.max(0, limit - fired)
}

/**
 * The first after it was put or resumed; never again one that fired, though the clock was set back. If it was set back
 * far, that would take too long: then only the last that fired is left out.
 */
function firstSlot(schedule: ScheduleRecord, rule: Recurrence, spec: ScheduleSpec): number | undefined {
  if (slotsLeft(schedule, spec) === 0) return undefined
  const { since, lastSlot = 0, ahead = 0 } = schedule
  const near = [lastSlot, ahead].filter((time) => !isFarBack(time, since))
  const slot = slotAfter(rule, Math.max(since, ...near))
  return slot !== undefined && slot === lastSlot ? slotAfter(rule, slot) : slot
}

/** Slots up to here may have fired. */
function knownUntil({ lastSlot = 0, ahead = 0 }: ScheduleRecord): number {
  return Math.max(lastSlot, ahead)
}

function moveTo(due: DueSchedule, to: number | undefined): Advance['change'] {
  const { name, revision, slot, since, now } = due
  return { do: 'advance', name, revision, from: slot, since, to, at: now, jobs: [], lastSlot: undefined }
}

interface Passed {
  /** Those that fire. */
  readonly slots: readonly number[]
  /** The first that is not dealt with. */
  readonly next: number | undefined
  readonly missed: Missed | undefined
}

/**
 * From the slot that it stands at, which is due, up to now. After a clock that was set back far, slots come that may
 * have come before: such a slot fires if it is on time, none is caught up on, and the last day of them is left out.
 * So a clock that was behind for a while leaves nothing that would fire again when it is right.
 */
function passedSince(slot: number, due: DueSchedule, rule: Recurrence, { catchUp }: ScheduleSpec): Passed {
  const { now } = due
  const known = knownUntil(due)
  if (slot > known) return passedSlots(slot, now, rule, catchUp)
  if (isFarBack(known, now)) return passedSlots(slot, now, rule, 'skip')
  const next = slotAfter(rule, known)
  if (next !== undefined && next <= now) return passedSlots(next, now, rule, catchUp)
  const isOnTime = now - slot <= punctualMs
  return { slots: [], next, missed: isOnTime && slot < known ? { since: slot, before: known } : undefined }
}

function passedSlots(slot: number, now: number, rule: Recurrence, catchUp: CatchUp): Passed {
  if (catchUp === 'all') return eachSlot(slot, now, rule)
  const newest = newestSlot(rule, slot, now)
  const { next } = newest
  if (catchUp === 'skip' && now - newest.slot > punctualMs)
    return { slots: [], next, missed: { since: slot, before: now } }
  const missed = newest.slot === slot ? undefined : { since: slot, before: newest.slot }
  return { slots: [newest.slot], next, missed }
}

/** No more than a bounded number; the schedule then stands at one that is due, and goes on from there. */
function eachSlot(slot: number, now: number, rule: Recurrence): Passed {
  const slots = [slot]
  let next = slotAfter(rule, slot)
  while (next !== undefined && next <= now && slots.length < bounds.slots) {
    slots.push(next)
    next = slotAfter(rule, next)
  }
  return { slots, next, missed: undefined }
}

/** How many slots these are, counted up to a bound. */
export function countMissed(schedule: ScheduleRecord, { since, before }: Missed): number {
  return 1 + slotsAfter(readRule(schedule), since, bounds.slots - 1, before - 1).length
}

function slotJob(name: string, spec: ScheduleSpec, slot: number): NewJob {
  const runAt = spec.jitter === 0 ? undefined : slot + Math.floor(spread(`${name} ${slot}`) * spec.jitter)
  return { ...onItsOwn(spec.job, `${slot}`), id: slotJobId(name, slot), runAt }
}

/** Beside the slots. */
export function triggeredJob({ job }: ScheduleSpec, id: string): NewJob {
  return { ...onItsOwn(job, `trigger:${id}`), id, runAt: undefined }
}

/** Each slot and each trigger is to be done, though the input is the same. */
function onItsOwn({ guard, ...job }: ScheduledJob, mark: string): Omit<NewJob, 'id' | 'runAt'> {
  return { ...job, delay: 0, family: undefined, guard: guard && { ...guard, key: `${guard.key}@${mark}` } }
}

/** One job per slot: whoever fires it again runs into the job that is there. */
export function slotJobId(name: string, slot: number): string {
  return `schedule:${name}:${new Date(slot).toISOString()}`
}

const slotJobPattern = /^schedule:([^:]+):(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/

/** The slot that a job is of. */
export interface ScheduleSlot {
  readonly name: string
  readonly slot: Date
}

export function slotOfJob(id: string): ScheduleSlot | undefined {
  if (!id.startsWith('schedule:')) return undefined
  const [, name, slot] = slotJobPattern.exec(id) ?? []
  return name === undefined || slot === undefined ? undefined : { name, slot: new Date(slot) }
}

export function readRule({ rule }: Pick<ScheduleRecord, 'rule'>): Recurrence {
  return JSON.parse(rule) as Recurrence
}

export function readSpec({ spec }: Pick<ScheduleRecord, 'spec'>): ScheduleSpec {
  return JSON.parse(spec) as ScheduleSpec
}
