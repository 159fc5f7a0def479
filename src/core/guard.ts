/**
 * Idempotency. A guard is a key that one holder at a time may work under, and that remembers what came of it: who
 * comes later gets the stored result instead of doing it again.
 */
import { isFinal, type JobState } from './job.js'
import { leavesNothing, type Outcome } from './lifecycle.js'

/** Of a new job: written with its settlement. The job itself is the holder from its first claim to its end. */
export interface NewGuard {
  readonly key: string
  /** Milliseconds that the record outlasts the job's completion. */
  readonly retain: number
}

/** What a claim found under the job's key. */
export interface ClaimedGuard extends NewGuard {
  /** `busy`: another job or caller holds it. */
  readonly status: 'begun' | 'busy' | 'done'
  /** Of `done`: what came of it. */
  readonly result: string | undefined
  /** Of `busy`: milliseconds after which another look makes sense. */
  readonly retryIn: number | undefined
}

export type GuardRequest =
  /** Takes the key for `lease` ms. With the holder that has it, renews that. */
  | { readonly do: 'begin'; readonly key: string; readonly holder: string; readonly lease: number }
  | {
      readonly do: 'complete'
      readonly key: string
      readonly holder: string
      readonly result: string | undefined
      readonly retain: number
    }
  /** Lets go of the key, so that another may try. */
  | { readonly do: 'fail'; readonly key: string; readonly holder: string }

/**
 * `applied` and `lost` answer `complete` and `fail`, the others `begin`. A `complete` repeated is `applied`. A
 * holder whose lease ran out may still complete, as long as nobody else has taken the key and no sweep has
 * forgotten it.
 */
export interface GuardResult {
  readonly status: 'begun' | 'busy' | 'done' | 'applied' | 'lost'
  readonly result: string | undefined
  /** Of `busy`: milliseconds after which another look makes sense. */
  readonly retryIn: number | undefined
}

/** What a store keeps under a key. */
export interface GuardRecord {
  /** A job's id, or what a caller named itself. Stays when it is done: its own word, repeated, is known by it. */
  readonly holder: string
  /** A job has the key until it ends; a caller until `expiresAt`, unless that is renewed. */
  readonly byJob: boolean
  readonly done: boolean
  /** When the holder took it. */
  readonly since: number
  /** End of a caller's lease or of the record's life; undefined while a job has it. */
  readonly expiresAt: number | undefined
  readonly result: string | undefined
  /**
   * While the job that completed is to be done again: until when its earlier result stands if it does not complete
   * again. It is `done` until that job is claimed, so that nobody waits for a replay that is for later.
   */
  readonly standsUntil: number | undefined
}

type Holder = Pick<GuardRecord, 'holder' | 'byJob'>

/** Whether a job that a key is written for has it: it lives, or has kept it in its death. */
export function holdsKey({ state, unwinds }: { state: JobState; unwinds: boolean }): boolean {
  return !isFinal(state) || (state === 'dead' && unwinds)
}

/**
 * A job has its key until it ends. One that unwinds and died has left something done, or may have, even where none of
 * its steps is written: another must not do that again. It has the key until it has ended in a later life, or is gone.
 * One that never began has done nothing.
 */
export function keepsKey(outcome: Outcome, { unwinds, hasBegun }: EndingJob): boolean {
  if (leavesNothing(outcome)) return false
  return holdsKey({ state: outcome.to, unwinds }) && (hasBegun || !outcome.idle)
}

interface EndingJob {
  readonly unwinds: boolean
  /** Its handler was called before. */
  readonly hasBegun: boolean
}

/** What someone who comes to a key finds. A job that does not hold it, or is gone, is nobody, whatever is written. */
export function findGuard(
  record: GuardRecord | undefined,
  who: Holder,
  now: number,
  isHeld: (job: string) => boolean,
): 'free' | 'own' | 'again' | 'busy' | 'done' {
  if (record === undefined) return 'free'
  const isOwn = isHeldBy(record, who)
  if (record.done) {
    if (hasExpired(record, now)) return 'free'
    return isOwn && record.standsUntil !== undefined ? 'again' : 'done'
  }
  if (isOwn) return 'own'
  if (record.byJob ? isHeld(record.holder) : !hasExpired(record, now)) return 'busy'
  return standsAgain(record, now) ? 'done' : 'free'
}

function standsAgain({ standsUntil = Number.NEGATIVE_INFINITY }: GuardRecord, now: number): boolean {
  return standsUntil > now
}

/** The record of a job that has completed and lives again: its own record will not stop it. */
export function toBeReopened(record: GuardRecord, now: number): GuardRecord | undefined {
  return !record.done || hasExpired(record, now) ? undefined : { ...record, standsUntil: record.expiresAt }
}

/**
 * The same once it is claimed: it has the key, as it had before, so that others wait for what comes of it. What it
 * gave before is forgotten only when it has given something else.
 */
export function reopened(record: GuardRecord, now: number): GuardRecord {
  return { ...record, done: false, since: now, expiresAt: undefined }
}

/**
 * What is left under the key when its holder ends without a result: what an earlier run of it gave; its own hold,
 * which goes with the dead job, however long that is kept; or nothing.
 */
export function leftBehind(record: GuardRecord, isHeld: boolean): GuardRecord | undefined {
  const { standsUntil } = record
  if (standsUntil !== undefined)
    return { ...record, done: true, expiresAt: standsUntil, standsUntil: undefined }
  return isHeld ? record : undefined
}

function isHeldBy(record: GuardRecord, who: Holder): boolean {
  return record.holder === who.holder && record.byJob === who.byJob
}

/** What a caller's word under its key counts: `repeated`, it has completed it before. */
export function judgeWord(
  record: GuardRecord | undefined,
  holder: string,
  word: 'complete' | 'fail',
): 'applies' | 'repeated' | 'lost' {
  if (record === undefined || !isHeldBy(record, { holder, byJob: false })) return 'lost'
  if (!record.done) return 'applies'
  return word === 'complete' ? 'repeated' : 'lost'
}

function hasExpired({ expiresAt = Number.POSITIVE_INFINITY }: GuardRecord, now: number): boolean {
  return expiresAt <= now
}

const soonestLook = 100
const latestLook = 60_000

/**
 * What has taken long is likely to take longer: who waits looks again after a quarter of the time that the holder
 * has had, so it waits little longer than it must, and looks seldom while nothing happens.
 */
export function lookAgainIn({ since, expiresAt }: GuardRecord, now: number): number {
  const pause = Math.min(latestLook, Math.max(soonestLook, Math.round((now - since) / 4)))
  return expiresAt === undefined ? pause : Math.min(pause, Math.max(1, expiresAt - now))
}
