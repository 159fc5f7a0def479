import {
  type ClaimedGuard,
  findGuard,
  type GuardRecord,
  type GuardRequest,
  type GuardResult,
  holdsKey,
  judgeWord,
  keepsKey,
  lookAgainIn,
  type NewGuard,
} from '../../core/guard.js'
import { type FinalState, isFinal } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { Lease } from '../ledger/token.js'
import { parse } from './parse.js'
import { guard as sql } from './sql.generated.js'
import { type Kind, stateName, type Tables, traits, unwinds } from './tables.js'

/** Guards of jobs, inside the current transaction. Only kinds with the trait come here. */
export interface JobGuards {
  /** Takes the key for a job that is claimed, if it is to be had. */
  claim(seq: number, id: string, now: number): ClaimedGuard | undefined
  /** Completion writes the record; any other end lets go, unless something is left done. */
  settled(lease: Lease, id: string, outcome: Outcome, now: number): void
  /** A job that lives again will take the key that its own record is under. */
  reopen(seq: number, id: string, now: number): void
  /** The job goes: what it held is free. */
  gone(seq: number, state: FinalState, kind: Kind): void
}

export function hasGuard(kind: { readonly traits: number }): boolean {
  return (kind.traits & traits.guard) !== 0
}

export function makeJobGuards(tables: Tables): JobGuards {
  const { db } = tables
  const ofJob = db.prepare<[number], string | null>(sql.ofJob).pluck()
  const guarded = db.prepare<[number], GuardedRow & { started_at: number | null }>(sql.guarded)
  const complete = db.prepare(sql.complete)
  const keys = makeKeys(tables)
  const letGo = makeLetGo(tables)
  const reopen = makeReopen(tables)

  return {
    claim(seq, id, now) {
      const own = parse<NewGuard>(ofJob.get(seq) ?? null)
      if (own === undefined) return undefined
      const { status, result, retryIn } = keys.begin(own.key, { holder: id, byJob: true }, undefined, now)
      return { ...own, status, result, retryIn }
    },
    settled({ seq, kind }, id, outcome, now) {
      if (!isFinal(outcome.to)) return
      const job = guarded.get(seq)
      if (job === undefined) return
      if (outcome.to !== 'completed') {
        const hasBegun = job.started_at !== null
        return letGo(job, keepsKey(outcome, { unwinds: unwinds(tables.kind(kind)), hasBegun }))
      }
      const own = parse<NewGuard>(job.guard)
      if (own !== undefined) complete.run(outcome.result ?? null, now + own.retain, own.key, id, 1)
    },
    reopen(seq, id, now) {
      reopen({ id, guard: ofJob.get(seq) ?? null }, now)
    },
    gone(seq, state, kind) {
      if (!hasGuard(kind) || !holdsKey({ state, unwinds: unwinds(kind) })) return
      letGo(guarded.get(seq) as GuardedRow)
    },
  }
}

/** Lets go of the key of a job that ends, goes or becomes another one. What came of it stays; see leftBehind in core/guard.ts. */
export function makeLetGo({ db }: Tables): (job: GuardedRow, isHeld?: boolean) => void {
  const leaveBehind = db.prepare(sql.leaveBehind)
  const letGo = db.prepare(sql.letGo)
  return ({ id, guard }, isHeld = false) => {
    const own = parse<NewGuard>(guard)
    if (own === undefined || leaveBehind.run(own.key, id).changes === 1) return
    if (!isHeld) letGo.run(own.key, id, 1)
  }
}

/** A job that lives again will take the key that its own record is under. */
export function makeReopen({ db }: Tables): (job: GuardedRow, now: number) => void {
  const mark = db.prepare(sql.toBeReopened)
  return ({ id, guard }, now) => {
    const own = parse<NewGuard>(guard)
    if (own !== undefined) mark.run(own.key, id, now)
  }
}

interface GuardedRow {
  readonly id: string
  readonly guard: string | null
}

export function guardColumn(guard: NewGuard | null | undefined): string | null {
  return guard ? JSON.stringify(guard) : null
}

export type Guard = (request: GuardRequest) => GuardResult

/** Keys of callers that are no jobs. */
export function makeGuard(tables: Tables, signals: { changed(): void }): Guard {
  const { db, clock } = tables
  const complete = db.prepare(sql.complete)
  const letGo = db.prepare(sql.letGo)
  const keys = makeKeys(tables)

  return (request) => {
    const { key, holder } = request
    const now = clock.now()
    if (request.do === 'begin') return keys.begin(key, { holder, byJob: false }, now + request.lease, now)
    const verdict = judgeWord(keys.find(key), holder, request.do)
    if (verdict !== 'applies') return verdict === 'lost' ? lost : applied
    if (request.do === 'fail') letGo.run(key, holder, 0)
    else complete.run(request.result ?? null, now + request.retain, key, holder, 0)
    // Who waits for the key need not wait until it looks again.
    signals.changed()
    return applied
  }
}

const applied: GuardResult = { status: 'applied', result: undefined, retryIn: undefined }
const lost: GuardResult = { status: 'lost', result: undefined, retryIn: undefined }
const begun = { status: 'begun', result: undefined, retryIn: undefined } as const

interface GuardRow {
  readonly holder: string
  readonly by_job: number
  readonly done: number
  readonly since: number
  readonly expires_at: number | null
  readonly result: string | null
  readonly stands_until: number | null
}

interface HolderRow {
  readonly state: number
  readonly kind: number
}

type Begun = Pick<ClaimedGuard, 'status' | 'result' | 'retryIn'>

function makeKeys(tables: Tables) {
  const { db } = tables
  const row = db.prepare<[string], GuardRow>(sql.find)
  const take = db.prepare(sql.take)
  const renew = db.prepare(sql.renew)
  const reopen = db.prepare(sql.reopen)
  const holder = db.prepare<[string], HolderRow>(sql.holder)

  return { find, begin }

  function find(key: string): GuardRecord | undefined {
    const found = row.get(key)
    if (found === undefined) return undefined
    const { holder, by_job, done, since, expires_at, result, stands_until } = found
    return {
      holder,
      byJob: by_job === 1,
      done: done === 1,
      since,
      expiresAt: expires_at ?? undefined,
      result: result ?? undefined,
      standsUntil: stands_until ?? undefined,
    }
  }

  function begin(
    key: string,
    who: Pick<GuardRecord, 'holder' | 'byJob'>,
    expiresAt: number | undefined,
    now: number,
  ): Begun {
    const record = find(key)
    switch (findGuard(record, who, now, isHeld)) {
      case 'free':
        take.run(key, who.holder, who.byJob ? 1 : 0, now, expiresAt ?? null)
        return begun
      case 'own':
        if (expiresAt !== undefined) renew.run(expiresAt, key)
        return begun
      case 'again':
        reopen.run(now, key)
        return begun
      case 'busy':
        return { status: 'busy', result: undefined, retryIn: lookAgainIn(record as GuardRecord, now) }
      case 'done':
        return { status: 'done', result: record?.result, retryIn: undefined }
    }
  }

  function isHeld(job: string): boolean {
    const row = holder.get(job)
    if (row === undefined) return false
    return holdsKey({ state: stateName(row.state), unwinds: unwinds(tables.kind(row.kind)) })
  }
}

/** Forgets records whose life is over, and leases that ran out. */
export interface GuardForgetting {
  isDue(now: number): boolean
  forget(now: number, limit: number): number
}

export function makeGuardForgetting({ db }: Tables): GuardForgetting {
  const isExpired = db.prepare<[number], number>(sql.isExpired).pluck()
  const forget = db.prepare(sql.forget)
  return {
    isDue: (now) => isExpired.get(now) !== undefined,
    forget: (now, limit) => forget.run(now, limit).changes,
  }
}
