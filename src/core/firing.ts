/**
 * What a due schedule fires and which slot is next. Pure: from what the store said, so all workers decide alike
 * and the first answer is as good as any other.
 */
import { bounds } from './bounds.js'
import type { NewJob } from './job.js'
import { newestSlot, type Recurrence, slotAfter, slotsAfter } from './recurrence.js'
import type { DueSchedule, ScheduleChange, ScheduleRecord } from './schedule.js'

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
  if (due.slot === undefined) return { change: moveTo(due, firstSlot(due, rule, spec)), missed: undefined }
  const left = slotsLeft(due, spec)
  const { slots, next, missed } = passedSlots(due.slot, due.now, rule, spec)
  const fired = slots.slice(0, left)
  return {
    change: {
      ...moveTo(due, fired.length === left ? undefined : next),
      jobs: fired.map((slot) => slotJob(due.name, spec, slot)),
      lastSlot: fired.at(-1),
    },
    missed,
  }
}

/** The slot that fires next: the one that it stands at, or that a fresh one is to be told. */
export function nextSlot(schedule: ScheduleRecord): number | undefined {
  const spec = readSpec(schedule)
  if (schedule.fresh) return firstSlot(schedule, readRule(schedule), spec)
  return slotsLeft(schedule, spec) === 0 ? undefined : schedule.slot
}

/** How many more may fire; the limit may have been lowered since. */
export function slotsLeft({ fired }: ScheduleRecord, { limit }: ScheduleSpec): number {
  return limit === undefined ? Number.POSITIVE_INFINITY : Math.max(0, limit - fired)
}

/** The first after it was put or resumed; never again one that fired, though the clock was set back. */
function firstSlot(schedule: ScheduleRecord, rule: Recurrence, spec: ScheduleSpec): number | undefined {
  const { since, lastSlot } = schedule
  return slotsLeft(schedule, spec) === 0 ? undefined : slotAfter(rule, Math.max(since, lastSlot ?? 0))
}

function moveTo({ name, revision, slot }: ScheduleRecord, to: number | undefined): Advance['change'] {
  return { do: 'advance', name, revision, from: slot, to, jobs: [], lastSlot: undefined }
}

interface Passed {
  /** Those that fire. */
  readonly slots: readonly number[]
  /** The first that is not dealt with. */
  readonly next: number | undefined
  readonly missed: Missed | undefined
}

/** From the slot that it stands at, which is due, up to now. */
function passedSlots(slot: number, now: number, rule: Recurrence, { catchUp }: ScheduleSpec): Passed {
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
  const { guard } = spec.job
  return {
    ...spec.job,
    id: slotJobId(name, slot),
    delay: 0,
    runAt,
    family: undefined,
    // Each slot is to be done, though the input is the same.
    guard: guard && { ...guard, key: `${guard.key}@${slot}` },
  }
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

/** A number from 0 up to 1 that looks random and is the same for the same text (FNV-1a, then mixed). */
function spread(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

export function readRule({ rule }: Pick<ScheduleRecord, 'rule'>): Recurrence {
  return JSON.parse(rule) as Recurrence
}

export function readSpec({ spec }: Pick<ScheduleRecord, 'spec'>): ScheduleSpec {
  return JSON.parse(spec) as ScheduleSpec
}
