/**
 * What becomes of a job that is inserted: it is there already, another one stands for it, it takes another's
 * place, it is for later, or it is ready and the queue has room or not. Decided here for every engine, one job
 * after the other, inside the step that inserts them.
 */

import { queueFull } from '../errors.js'
import type { Completion, NewFamily } from '../family.js'
import type { JobState, NewJob } from '../job.js'
import type { InsertResult } from '../store.js'
import { type Dedupe, judgeDuplicate, type KeyHolder } from './dedupe.js'
import type { Doorkeeper, Overflow } from './depth.js'

/** A job that has a dedupe key. */
export interface HeldJob {
  readonly job: Pick<NewJob, 'queue' | 'lane' | 'traffic'>
  readonly state: JobState
  readonly createdAt: number
  /** It has steps, whose keys are those of its own input. */
  readonly stepped: boolean
}

/** How a waiting job becomes another one. */
export interface TakeOver {
  readonly to: 'pending' | 'scheduled'
  readonly due: number
  /** Where it waits is right for the new one too: it keeps its place. */
  readonly stays: boolean
}

/** What an engine does for the jobs of one insert. */
export interface Entrance<H extends HeldJob> {
  readonly now: number
  /** Of the job that has this id. An engine may leave it to `add` to find out, for a job that is nothing special. */
  stateOf(job: NewJob): JobState | undefined
  holder(name: string, key: string): KeyHolder | undefined
  jobOf(holder: KeyHolder): H | undefined
  /** The waiting job becomes the new one, but for its id. */
  takeOver(held: H, job: NewJob, how: TakeOver): void
  /** Cancels the waiting job, which lets go of its key. */
  supersede(held: H): void
  hold(job: NewJob, rule: Dedupe): void
  /** Undefined for a queue without a limit on its depth, and for jobs that a handler added. */
  door(queue: string): Doorkeeper | undefined
  /** Returns `duplicate` for a job that was there already. */
  add(job: NewJob, dueAt: number): InsertResult
  count(job: NewJob, what: 'shed' | 'deferred'): void
  /** Makes it a child of its parents. `known`: it was one before; `orphaned`: one of them takes no more children. */
  join(job: NewJob): 'joined' | 'known' | 'orphaned'
  /** Whether one of its parents has a child of that id. */
  knows(job: NewJob, family: NewFamily): boolean
  /** Adds a job that waits for children. */
  addBlocked(job: NewJob): InsertResult
  /** Links of this completion keep that it is undone. False where one of them did so before. */
  undo(completion: Completion): boolean
}

/**
 * What admits the jobs of one insert, one after the other. A flow is not begun while parts of an earlier one of its id are
 * there: it would miss them.
 */
export function admission<H extends HeldJob>(
  entrance: Entrance<H>,
  jobs: readonly NewJob[],
): (job: NewJob) => InsertResult {
  const taken = takenFlows(entrance, jobs)
  return (job) => (isOf(job, taken) ? orphaned : admit(entrance, job))
}

const orphaned: InsertResult = { status: 'orphaned', state: undefined }

function isOf({ family }: NewJob, flows: ReadonlySet<string>): boolean {
  return family !== undefined && flows.has(family.flow)
}

function takenFlows(entrance: Entrance<HeldJob>, jobs: readonly NewJob[]): ReadonlySet<string> {
  const begun = new Set<string>()
  const taken = new Set<string>()
  for (const job of jobs) {
    const { family } = job
    if (family === undefined || family.loose === true) continue
    const isLast = family.parents.length === 0
    if (!isLast && !begun.has(family.flow)) continue
    const exists = entrance.stateOf(job) !== undefined
    if (isLast && !exists) begun.add(job.id)
    if (!isLast && exists) taken.add(family.flow)
  }
  return taken
}

/** A job that has its id, and is not the child that is to be added. */
function isStranger(entrance: Entrance<HeldJob>, job: NewJob): boolean {
  const { family } = job
  if (family === undefined || family.loose === true || family.parents.length === 0) return false
  return !entrance.knows(job, family)
}

function admit<H extends HeldJob>(entrance: Entrance<H>, job: NewJob): InsertResult {
  const state = entrance.stateOf(job)
  const isUndone = job.family?.undoes !== undefined && !entrance.undo(job.family.undoes)
  if (state === undefined && isUndone) return { status: 'duplicate', state }
  if (state !== undefined) return { status: isStranger(entrance, job) ? 'orphaned' : 'duplicate', state }
  if (job.family !== undefined) return admitRelative(entrance, job, job.family)
  if (job.dedupe === undefined) return admitNew(entrance, job, 0)

  const { now } = entrance
  const holder = entrance.holder(job.name, job.dedupe.key)
  const held = holder === undefined ? undefined : heldBy(entrance, holder)
  const verdict = judgeDuplicate(job.dedupe, holder, held, now)
  if (verdict.do === 'insert' || verdict.do === 'supersede') {
    const result = admitNew(entrance, job, verdict.delay)
    if (result.status !== 'inserted' && result.status !== 'deferred') return result
    if (verdict.do === 'supersede') supersede(entrance, held as H)
    entrance.hold(job, job.dedupe)
    return result
  }
  const { id } = holder as KeyHolder
  if (verdict.do === 'keep') return { status: 'duplicate', state: held?.state, id }
  const due = verdict.dueAt ?? job.runAt ?? now + job.delay
  return { status: 'replaced', state: replace(entrance, held as H, job, due), id }
}

/**
 * A full queue refuses a flow as a whole, by the job that it leads to; the others are orphans then. It never
 * drops or puts off parts of one.
 */
function admitRelative(entrance: Entrance<HeldJob>, job: NewJob, family: NewFamily): InsertResult {
  const waits = family.waits !== 'no'
  const door = entrance.door(job.queue)
  if (family.parents.length === 0) {
    const admission = door?.admit(job.lane)
    if (admission !== undefined && admission.verdict !== 'take') return refusal('full', admission)
    if (waits) door?.left(job.lane)
  } else {
    const joined = entrance.join(job)
    if (joined === 'known') return { status: 'duplicate', state: undefined }
    if (joined === 'orphaned' && family.loose !== true) return { status: 'orphaned', state: undefined }
    if (!waits) door?.came(job.lane)
  }
  if (waits) return entrance.addBlocked(job)
  return entrance.add(job, Math.max(entrance.now, job.runAt ?? entrance.now + job.delay))
}

/** Unless its id was used again, after it was removed, by a job that came later. */
function heldBy<H extends HeldJob>(entrance: Entrance<H>, holder: KeyHolder): H | undefined {
  const held = entrance.jobOf(holder)
  return held !== undefined && held.createdAt <= holder.since ? held : undefined
}

function supersede<H extends HeldJob>(entrance: Entrance<H>, held: H): void {
  if (held.state === 'pending') entrance.door(held.job.queue)?.left(held.job.lane)
  entrance.supersede(held)
}

function replace<H extends HeldJob>(entrance: Entrance<H>, held: H, job: NewJob, due: number): JobState {
  const to = due > entrance.now ? 'scheduled' : 'pending'
  if (held.state === 'pending') entrance.door(held.job.queue)?.left(held.job.lane)
  if (to === 'pending') entrance.door(job.queue)?.came(job.lane)
  const stays = held.state === 'pending' && to === 'pending' && waitAlike(held.job, job)
  entrance.takeOver(held, job, { to, due, stays })
  return to
}

function waitAlike(a: HeldJob['job'], b: HeldJob['job']): boolean {
  return (
    a.queue === b.queue &&
    a.lane === b.lane &&
    a.traffic?.group === b.traffic?.group &&
    a.traffic?.key === b.traffic?.key
  )
}

function admitNew(entrance: Entrance<HeldJob>, job: NewJob, delay: number): InsertResult {
  const { now } = entrance
  const dueAt = (job.runAt ?? now + job.delay) + delay
  if (dueAt > now) return entrance.add(job, dueAt)
  const door = entrance.door(job.queue)
  const admission = door?.admit(job.lane)
  if (admission === undefined || admission.verdict === 'take') return entrance.add(job, now)
  if (admission.verdict === 'full') return refusal('full', admission)
  const defer = door?.policy.defer ?? 0
  entrance.count(job, defer === 0 ? 'shed' : 'deferred')
  if (defer === 0) return refusal('shed', admission)
  entrance.add(job, now + defer)
  return { status: 'deferred', state: 'scheduled' }
}

function refusal(status: 'shed' | 'full', { depth, limit, wait }: Overflow): InsertResult {
  return { status, state: undefined, overflow: { depth, limit, wait } }
}

/** For a caller who commits next: it has to hear now, by an error, of a job that will not be there. */
export function allTaken(jobs: readonly NewJob[], results: InsertResult[]): InsertResult[] {
  for (const [i, { status, overflow }] of results.entries()) {
    if ((status === 'full' || status === 'shed') && overflow !== undefined)
      throw queueFull((jobs[i] as NewJob).queue, overflow)
  }
  return results
}
