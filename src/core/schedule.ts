/**
 * Schedules: named recurrences, each of whose slots fires exactly one job. The store keeps them and names those
 * whose slot has come; what a slot is and what it fires is decided here. A worker that found a slot due answers
 * with an `advance`, which is refused unless the schedule still stands at that slot; so it does not matter how
 * many workers try.
 */
import type { NewJob } from './job.js'

export interface ScheduleRecord {
  readonly name: string
  /** What it is: recurrence, job and input, as JSON; see `ScheduleSpec`. Opaque to a store. */
  readonly spec: string
  readonly paused: boolean
  /** The slot that it stands at, which has not fired; undefined when there is none any more. */
  readonly slot: number | undefined
  /** It has not been told its first slot since it was put or resumed. */
  readonly fresh: boolean
  /** Jobs that its slots fired since it was made. */
  readonly fired: number
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
  /** Adds it; with another spec than it has, changes that and begins afresh; with the same, changes nothing. */
  | { readonly do: 'put'; readonly name: string; readonly spec: string }
  /** Goes on from `from`, the slot that it stands at, to `to`; applied only if spec and slot are still these. */
  | {
      readonly do: 'advance'
      readonly name: string
      readonly spec: string
      readonly from: number | undefined
      readonly to: number | undefined
      /** What the slots passed fire. */
      readonly jobs: readonly NewJob[]
      /** The last slot that fired. */
      readonly lastSlot: number | undefined
    }
  | { readonly do: 'pause'; readonly name: string; readonly paused: boolean }
  | { readonly do: 'remove'; readonly name: string }

/** `same`: nothing had to change. `lost`: an advance that came too late. */
export interface ScheduleResult {
  readonly status: 'applied' | 'same' | 'lost' | 'missing'
  /** As it stands now; undefined when there is none. */
  readonly record: ScheduleRecord | undefined
  /** The store's clock. */
  readonly now: number
}
