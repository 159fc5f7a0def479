/**
 * Jobs that depend on each other. A parent waits for its children; it is `blocked` until all of them have ended,
 * whatever way. A store only counts: what a child that did not complete means for its parent is decided by the
 * worker that gets the parent. A flow is a parent with all that it waits for, by the parent's id.
 */
import { type Failure, type FinalState, isFinal, type JobState } from './job.js'
import { type Outcome, waiting } from './lifecycle.js'

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
  /** Where its parents take no more children, it comes without them. */
  readonly loose?: boolean
  /**
   * What its flow may have to undo is found by it: however it ends, and however short its retention is, it is kept
   * until the job that the flow leads to has completed or is gone.
   */
  readonly stays?: boolean
  /** What it undoes. It is added once for that, also where it is no longer there: the links keep that it was. */
  readonly undoes?: Completion
}

/** That a child completed, as those know it who waited for it. */
export interface Completion {
  readonly child: string
  readonly endedAt: number
  readonly parents: readonly string[]
}

export interface ParentLink {
  readonly id: string
  readonly onFailure: FailurePolicy
  /** The first of such children to die wakes the parent, however many others it waits for. */
  readonly wakes: boolean
  /** What undoes the child, for the worker of the parent. Opaque to a store. */
  readonly undo: string | undefined
  /**
   * Of a child that a step of the parent's run adds: the id that all children of this step share. The parent waits for
   * them in its run only, fan by fan, and forgets them with its steps.
   */
  readonly fan?: string | undefined
}

/** The same of a job that is there. A job without parents that never had children has none. */
export interface Family {
  /** The flow that it is part of; where its parents are gone, it may be its own id. */
  readonly flow: string
  readonly node: string | undefined
  readonly parents: readonly string[]
  /** Children it ever had, and how many of them have not ended. */
  readonly children: number
  readonly waiting: number
  /** Children that did not complete and stand in its way: it must not run as if nothing had happened. */
  readonly failed: number
  /** Not sealed yet: more children may come. */
  readonly open: boolean
  /** How often children of its steps were replayed: what was read of them is true until that changes. */
  readonly replays: number
  /** What completed for it was undone when it died: it never runs again. */
  readonly compensated: boolean
}

/** A child as its parent sees it: kept with the parent, so it outlives the child's own retention. */
export interface LinkRecord {
  readonly parent: string
  readonly child: string
  /** The child's definition. */
  readonly name: string
  readonly node: string | undefined
  /** Of a child that a step has added; see `ParentLink`. */
  readonly fan: string | undefined
  readonly onFailure: FailurePolicy
  /** How it ended; a child that was removed before that counts as cancelled. Undefined while it has not. */
  readonly end: FinalState | undefined
  readonly endedAt: number | undefined
  readonly result: string | undefined
  readonly failure: Failure | undefined
  readonly undo: string | undefined
  /** What undoes it was added since it completed. */
  readonly undone: boolean
}

/** Whether a link keeps that this was undone: this time that the child completed, not an earlier or a later one. */
export function keepsUndone(
  { undone, endedAt = 0 }: Pick<LinkRecord, 'undone' | 'endedAt'>,
  completion: Completion,
): boolean {
  return undone && endedAt === completion.endedAt
}

/** Whether a link is of what is undone: not if the child was replayed since, which is another time. */
export function isCompletion(
  { end, endedAt = 0 }: Pick<LinkRecord, 'end' | 'endedAt'>,
  completion: Completion,
): boolean {
  return end === 'completed' && endedAt === completion.endedAt
}

/** One parent waits for it, and there is nothing else to tell of its place. */
export function isPlainChild({ parents, waits, node }: NewFamily): boolean {
  return parents.length === 1 && waits === 'no' && node === undefined
}

/** Whether a reader who asked for these links wants this one. */
export function isAskedFor(
  { name, end, fan }: Pick<LinkRecord, 'name' | 'end' | 'fan'>,
  query: {
    readonly name?: string | undefined
    readonly failed?: boolean | undefined
    readonly given?: boolean | undefined
  },
): boolean {
  if (query.name !== undefined && name !== query.name) return false
  if (query.given === true && fan !== undefined) return false
  return query.failed !== true || (end !== undefined && end !== 'completed')
}

/** Whether a child that ended so keeps its parent from running. */
export function standsInTheWay(end: FinalState, policy: FailurePolicy): boolean {
  return end !== 'completed' && (policy === 'fail' || policy === 'compensate')
}

/** What a store knows of a parent. */
export interface Parent {
  readonly state: JobState
  /** What it waits for before it runs: neither children of its steps nor what has ended. */
  readonly waiting: number
}

/**
 * Whether a job may have one more child. One that waits for nothing more is about to run and would not notice;
 * unless it is being built: the child comes in the same call, or from the parent's own run.
 */
export function takesChildren(parent: Parent | undefined, isBuilt: boolean): boolean {
  return parent !== undefined && !isFinal(parent.state) && (isBuilt || parent.waiting > 0)
}

/** A job that stays is kept so long at least, and so much longer each time that its flow is found not to be over. */
const stay = 3_600_000

/** How a job ends that stays. */
export function staying(outcome: Outcome): Outcome {
  return isFinal(outcome.to) ? { ...outcome, retain: staysFor(outcome.retain) } : outcome
}

export function staysFor(retain: number): number {
  return Math.max(retain, stay)
}

export function staysUntil(now: number): number {
  return now + stay
}

/**
 * Whether a job that stays may go, by the state of the one that its flow leads to: undefined if that is gone. One
 * that is dead may be replayed, and a part of it fail again. An operator may remove what failed.
 */
export function mayGo(last: JobState | undefined, by: 'retention' | 'operator'): boolean {
  return last === undefined || last === 'completed' || (by === 'operator' && isFinal(last))
}

/** How long a cancelled job is kept: its children are found by it, and are to be cancelled too. */
export function cancelledFor(retain: number, isWaiting: boolean): number {
  return isWaiting ? Math.max(retain, 3_600_000) : retain
}

/** Whether a run ends because of a child. It may have been replayed meanwhile: then the job waits instead. */
export function diesOfChild(outcome: Outcome): boolean {
  const { to, failure } = outcome
  if (diesCompensated(outcome)) return failure?.child !== undefined
  return to === 'dead' && failure?.code === 'CHILD_FAILED'
}

/** Whether a job dies whose children are undone. */
export function diesCompensated({ to, failure }: Outcome): boolean {
  return to === 'dead' && failure?.code === 'COMPENSATED'
}

/** Whether what came with a settlement is added: what undoes others only with the death that it is for. */
export function bringsInserts(wanted: Outcome, applied: Outcome): boolean {
  return diesCompensated(applied) || !diesCompensated(wanted)
}

/** What its worker looked at when it found that a job dies of a child, as it is now. */
export interface Found {
  /** Of the child, if it is known. */
  readonly link: Pick<LinkRecord, 'end' | 'fan'> | undefined
  readonly isWaiting: boolean
  /** Something that is to be undone was replayed since. */
  readonly isOld: boolean
}

/**
 * What becomes of a job whose run dies of a child: it waits instead if that, or another one, is replayed meanwhile, or
 * all is well with it by now. Undefined when it dies.
 */
export function insteadOfDeath({ idle }: Outcome, { link, isWaiting, isOld }: Found): Outcome | undefined {
  const isMended = link !== undefined && (link.end === undefined || link.end === 'completed')
  const fans = link?.fan === undefined ? [] : [link.fan]
  if (!isMended && !isOld && !(isWaiting && fans.length === 0)) return undefined
  return { ...waiting({ until: undefined, signals: [], children: fans.length === 0, fans }), idle }
}

/** What ended children mean for their parent. */
export interface Release {
  /** One of them was to wake it by its death, and was the first. */
  readonly isFirstDeath: boolean
  /** One of them was not a step's. */
  readonly isAwaited: boolean
  /** They were the last ones of a fan. */
  readonly isFanOver: boolean
}

/** Whether a waiting parent runs now that children have ended. */
export function wakesParent({ state, waiting }: Parent, release: Release): boolean {
  if (state !== 'blocked') return false
  return release.isFirstDeath || (waiting === 0 && (release.isAwaited || release.isFanOver))
}

/**
 * Where a job goes when it is sealed. One that was woken because nobody had sealed it waits again; one that was
 * woken by a death has something to do.
 */
export function afterSeal({ state, waiting }: Parent, isAlarmed: boolean): 'ready' | 'waits' | 'stays' {
  if (state === 'blocked') return waiting === 0 ? 'ready' : 'waits'
  return state === 'pending' && waiting > 0 && !isAlarmed ? 'waits' : 'stays'
}

/**
 * What a child's replay means for its parent. `counts`: it is waited for again. `returns`: the same, and the parent,
 * which was about to run, or waits in its run for something else, is blocked until the child has ended. `revives`: the
 * same of one that is dead only because of its children. `nothing`: the parent has completed without it.
 */
export function onReplay({
  state,
  failure,
  hasBusiness,
}: {
  readonly state: JobState
  readonly failure: Failure | undefined
  /** What it is about to do does not depend on the child; see `hasBusiness`. Or it is a step's, and its run will see. */
  readonly hasBusiness: boolean
}): 'counts' | 'returns' | 'revives' | 'nothing' {
  switch (state) {
    case 'completed':
      return 'nothing'
    case 'pending':
    case 'scheduled':
    case 'retrying':
    case 'blocked':
      return hasBusiness ? 'counts' : 'returns'
    case 'dead':
      return failure?.code === 'CHILD_FAILED' ? 'revives' : 'counts'
    default:
      return 'counts'
  }
}

/** Whether what became of a step's child stays as it is, also when it is replayed: the step has given it. */
export function isGiven(end: FinalState, isClosed: boolean): boolean {
  return end === 'completed' || isClosed
}

/** Whether a job that is replayed has to wait for children; one that nobody sealed is for its worker to judge. */
export function waitsAgain({ waiting, open }: { readonly waiting: number; readonly open: boolean }): boolean {
  return waiting > 0 && !open
}

/** What a parent is up to. */
export interface Business {
  /** More children may come: its worker judges. */
  readonly open: boolean
  /** A death has woken it, which is no reason to wait for the others. */
  readonly alarmed: boolean
  /** It was cancelled and has to undo what it did. */
  readonly unwinding: boolean
}

/** Whether it runs whatever its children do. */
export function hasBusiness({ open, alarmed, unwinding }: Business): boolean {
  return open || alarmed || unwinding
}

/** A job that is to run again waits first for a child that was replayed while it ran. */
export function orBlocked(outcome: Outcome, parent: Business & { readonly waiting: number }): Outcome {
  if (isFinal(outcome.to) || parent.waiting === 0 || hasBusiness(parent)) return outcome
  return { ...outcome, to: 'blocked', delay: 0, wait: undefined }
}
