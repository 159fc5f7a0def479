import {
  type ClaimedGuard,
  findGuard,
  type GuardRecord,
  type GuardRequest,
  type GuardResult,
  holdsKey,
  judgeWord,
  keepsKey,
  leftBehind,
  lookAgainIn,
  type NewGuard,
  reopened,
  toBeReopened,
} from '../../core/guard.js'
import { isFinal } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { Entry } from './entry.js'
import { type Book, type Shelf, start } from './shelf.js'
import type { Tables } from './tables.js'

/** A record with its place among those that end by themselves. */
export interface KeptGuard {
  readonly record: GuardRecord
  readonly key: string
  readonly rank: number
  readonly seq: number
}

export class Guards {
  readonly #byKey: Book<KeptGuard>
  readonly #byTime: Shelf<KeptGuard>
  readonly #nextSeq: () => number

  constructor(byKey: Book<KeptGuard>, byTime: Shelf<KeptGuard>, nextSeq: () => number) {
    this.#byKey = byKey
    this.#byTime = byTime
    this.#nextSeq = nextSeq
  }

  get(key: string): GuardRecord | undefined {
    return this.#byKey.get(key)?.record
  }

  set(key: string, record: GuardRecord): void {
    this.delete(key)
    const kept = { record, key, rank: record.expiresAt ?? 0, seq: this.#nextSeq() }
    this.#byKey.set(key, kept)
    if (record.expiresAt !== undefined) this.#byTime.add(kept)
  }

  delete(key: string): void {
    const kept = this.#byKey.get(key)
    if (kept === undefined) return
    this.#byKey.delete(key)
    if (kept.record.expiresAt !== undefined) this.#byTime.delete(kept)
  }

  /** Those whose life or lease is over, a bounded number; returns how many. */
  forget(now: number, limit: number): number {
    const over: KeptGuard[] = []
    for (const kept of this.#byTime.after(start.rank, start.seq, limit)) {
      if (kept.rank > now || over.length === limit) break
      over.push(kept)
    }
    for (const { key } of over) this.delete(key)
    return over.length
  }
}

/** Takes the key for a job that is claimed, if it is to be had. */
export function claimGuard(tables: Tables, { id }: { id: string }, own: NewGuard, now: number): ClaimedGuard {
  const { status, result, retryIn } = begin(tables, own.key, { holder: id, byJob: true }, undefined, now)
  return { ...own, status, result, retryIn }
}

/** Completion writes the record; any other end lets go, unless something is left done. */
export function settleGuard(tables: Tables, entry: Entry, outcome: Outcome, now: number): void {
  if (!isFinal(outcome.to)) return
  const { job } = entry
  const { key, retain } = job.guard as NewGuard
  const record = heldBy(tables, key, job.id)
  if (record === undefined || record.done) return
  if (outcome.to !== 'completed') {
    const hasBegun = entry.story?.startedAt !== undefined
    return letGo(tables, key, record, keepsKey(outcome, { unwinds: job.unwinds === true, hasBegun }))
  }
  tables.guards.set(key, completed(record, outcome.result, now + retain))
}

function completed(record: GuardRecord, result: string | undefined, expiresAt: number): GuardRecord {
  return { ...record, done: true, result, expiresAt, standsUntil: undefined }
}

/** Of a job that ends, goes or becomes another one. What came of it stays. */
export function letGoOfGuard(tables: Tables, { job }: Entry): void {
  if (job.guard === undefined) return
  const record = heldBy(tables, job.guard.key, job.id)
  if (record?.done === false || record?.standsUntil !== undefined) letGo(tables, job.guard.key, record)
}

function letGo({ guards }: Tables, key: string, record: GuardRecord, isHeld = false): void {
  const left = leftBehind(record, isHeld)
  if (left === undefined) guards.delete(key)
  else guards.set(key, left)
}

/** A job that lives again will take the key that its own record is under. */
export function reopenGuard(tables: Tables, { job }: Entry, now: number): void {
  if (job.guard === undefined) return
  const record = heldBy(tables, job.guard.key, job.id)
  const marked = record && toBeReopened(record, now)
  if (marked !== undefined) tables.guards.set(job.guard.key, marked)
}

function heldBy({ guards }: Tables, key: string, id: string): GuardRecord | undefined {
  const record = guards.get(key)
  return record?.byJob && record.holder === id ? record : undefined
}

/** Keys of callers that are no jobs. */
export function guard(tables: Tables, request: GuardRequest, now: number): GuardResult {
  const { guards, signals } = tables
  const { key, holder } = request
  if (request.do === 'begin') return begin(tables, key, { holder, byJob: false }, now + request.lease, now)
  const record = guards.get(key)
  const verdict = judgeWord(record, holder, request.do)
  if (verdict !== 'applies') return verdict === 'lost' ? lost : applied
  if (request.do === 'fail') guards.delete(key)
  else {
    const { result, retain } = request
    guards.set(key, completed(record as GuardRecord, result, now + retain))
  }
  // Who waits for the key need not wait until it looks again.
  signals.changed()
  return applied
}

const applied: GuardResult = { status: 'applied', result: undefined, retryIn: undefined }
const lost: GuardResult = { status: 'lost', result: undefined, retryIn: undefined }
const begun = { status: 'begun', result: undefined, retryIn: undefined } as const

function begin(
  { guards, jobs }: Tables,
  key: string,
  who: Pick<GuardRecord, 'holder' | 'byJob'>,
  expiresAt: number | undefined,
  now: number,
): Pick<ClaimedGuard, 'status' | 'result' | 'retryIn'> {
  const record = guards.get(key)
  const isHeld = (id: string) => {
    const entry = jobs.get(id)
    if (entry === undefined) return false
    return holdsKey({ state: entry.state, unwinds: entry.job.unwinds === true })
  }
  switch (findGuard(record, who, now, isHeld)) {
    case 'free':
      guards.set(key, {
        ...who,
        done: false,
        since: now,
        expiresAt,
        result: undefined,
        standsUntil: undefined,
      })
      return begun
    case 'own':
      if (expiresAt !== undefined) guards.set(key, { ...(record as GuardRecord), expiresAt })
      return begun
    case 'again':
      guards.set(key, reopened(record as GuardRecord, now))
      return begun
    case 'busy':
      return { status: 'busy', result: undefined, retryIn: lookAgainIn(record as GuardRecord, now) }
    case 'done':
      return { status: 'done', result: record?.result, retryIn: undefined }
  }
}
