/**
 * Jobs that depend on each other. A parent waits for its children; it is `blocked` until all of them have ended,
 * whatever way. A store only counts: what a child that did not complete means for its parent is decided by the
 * worker that gets the parent. A flow is a parent with all that it waits for, by the parent's id.
 */
import type { Failure, FinalState } from './job.js'

/** What becomes of a parent whose child died or was cancelled. */
export const failurePolicies = ['fail', 'continue', 'ignore', 'compensate'] as const
export type FailurePolicy = (typeof failurePolicies)[number]

/** The place of a new job among others. */
export interface NewFamily {
  /** Id of the job that the whole flow leads to. */
  readonly flow: string
  /** Its name in the flow, if it has one. */
  readonly node: string | undefined
  /** Jobs that wait for it. They exist, or come before it in the same call; otherwise it is not inserted. */
  readonly parents: readonly ParentLink[]
  /**
   * Whether it waits for children. `sealed`: those that come in the same call. `open`: more may come until it is
   * sealed by `operate`; if that does not happen within `patience` ms, it wakes as it is.
   */
  readonly waits: 'no' | 'sealed' | 'open'
  readonly patience: number
}

export interface ParentLink {
  readonly id: string
  readonly onFailure: FailurePolicy
  /** The parent wakes as soon as the child dies or is cancelled, however many others it waits for. */
  readonly wakes: boolean
  /** What undoes the child, for the worker of the parent. Opaque to a store. */
  readonly undo: string | undefined
}

/** The same of a job that is there. A job without parents that never had children has none. */
export interface Family {
  readonly flow: string
  readonly node: string | undefined
  readonly parents: readonly string[]
  /** Children it ever had, and how many of them have not ended. */
  readonly children: number
  readonly waiting: number
  /** Children that died or were cancelled, and whose policy is not `ignore`. */
  readonly failed: number
  /** Not sealed yet: more children may come. */
  readonly open: boolean
}

/** A child as its parent sees it: kept with the parent, so it outlives the child's own retention. */
export interface LinkRecord {
  readonly parent: string
  readonly child: string
  /** The child's definition. */
  readonly name: string
  readonly node: string | undefined
  readonly onFailure: FailurePolicy
  /** How it ended; a child that was removed before that counts as cancelled. Undefined while it has not. */
  readonly end: FinalState | undefined
  readonly endedAt: number | undefined
  readonly result: string | undefined
  readonly failure: Failure | undefined
  readonly undo: string | undefined
}
