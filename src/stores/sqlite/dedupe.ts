import { isFinal, type NewJob } from '../../core/job.js'
import type { HeldJob, TakeOver } from '../../core/traffic/admit.js'
import {
  type Dedupe,
  heldSince,
  type KeyHolder,
  lookEvery,
  newestWins,
  onReturn,
  takesKeyAgain,
} from '../../core/traffic/dedupe.js'
import type { Families } from './family.js'
import { guardColumn, makeLetGo } from './guard.js'
import { listColumn } from './parse.js'
import type { Pending } from './pending.js'
import { dedupe as sql, waiting as waitingSql } from './sql.generated.js'
import { type Kind, stateName, stateNumber, type Tables } from './tables.js'

/** Keys of jobs that are deduped, inside the current transaction. */
export interface Holders {
  find(name: string, key: string): KeyHolder | undefined
  hold(name: string, key: string, id: string, now: number, expiresAt: number): void
  /** It is cancelled or removed: nobody gives way to it. */
  letGo(job: KeyedJob): void
  /** Whether a job that would come back has its key still, and no newer one does; a key that is free it takes. */
  keepsKey(job: KeyedJob, now: number): boolean
  /** It lives again: the key is its own, unless another has it that waits or runs. */
  holdAgain(job: KeyedJob, now: number): void
}

/** A stored job, with its key where the newest job of a key must have the last word. */
interface KeyedJob {
  readonly id: string
  readonly kind: number
  readonly dedupe: string | null
  readonly created_at: number
}

export function makeHolders(tables: Tables): Holders {
  const { db } = tables
  const holder = db.prepare<[string, string], KeyHolder>(sql.holder)
  const hold = db.prepare(sql.hold)
  const letGo = db.prepare(sql.letGo)
  const stateOf = db.prepare<[string], number>(sql.stateOf).pluck()
  const nameOf = ({ kind }: KeyedJob) => tables.kind(kind).name
  const holdOwn = (job: KeyedJob, now: number) => {
    const since = heldSince(job.created_at, now)
    hold.run(nameOf(job), job.dedupe, job.id, since, since + lookEvery)
  }

  return {
    find: (name, key) => holder.get(name, key),
    hold: (name, key, id, now, expiresAt) => void hold.run(name, key, id, now, expiresAt),
    letGo(job) {
      if (job.dedupe !== null) letGo.run(job.id, nameOf(job), job.dedupe)
    },
    keepsKey(job, now) {
      if (job.dedupe === null) return true
      const verdict = onReturn(holder.get(nameOf(job), job.dedupe), job.id)
      if (verdict === 'take') holdOwn(job, now)
      return verdict !== 'give way'
    },
    holdAgain(job, now) {
      if (job.dedupe === null) return
      const found = holder.get(nameOf(job), job.dedupe)
      const state = found === undefined ? undefined : stateOf.get(found.id)
      if (takesKeyAgain(found, state === undefined ? undefined : stateName(state))) holdOwn(job, now)
    },
  }
}

/** The column of a job that says which key it must not come back to once a newer one has it. */
export function dedupeColumn(dedupe: Dedupe | undefined): string | null {
  return dedupe !== undefined && newestWins(dedupe.mode) ? dedupe.key : null
}

/** A job that has a key, with its place. */
export interface HeldRow extends HeldJob {
  readonly seq: number
  readonly id: string
  readonly guard: string | null
  readonly kind: Kind
  readonly readyAt: number | null
  /** It has children, which are not those of the job that it may become. */
  readonly isParent: boolean
}

export function makeReadHeld(tables: Tables): (holder: KeyHolder) => HeldRow | undefined {
  const held = tables.db.prepare<[string], StoredHeld>(sql.held)
  return ({ id }) => {
    const row = held.get(id)
    if (row === undefined) return undefined
    const { seq, createdAt, readyAt, grp, key, gated, guard } = row
    const kind = tables.kind(row.kind)
    const traffic = { group: grp ?? undefined, key: key ?? undefined, gated: gated === 1 }
    const state = row.leased === 1 ? 'running' : stateName(row.state)
    const stepped = row.stepped === 1
    const job = { queue: kind.queue, lane: kind.lane, traffic }
    return { seq, id, guard, createdAt, readyAt, stepped, isParent: row.isParent === 1, kind, state, job }
  }
}

interface StoredHeld {
  readonly seq: number
  readonly state: number
  readonly leased: number
  readonly createdAt: number
  readonly readyAt: number | null
  readonly stepped: number | null
  readonly isParent: number
  readonly kind: number
  readonly grp: string | null
  readonly key: string | null
  readonly gated: number | null
  readonly guard: string | null
}

export function makeTakeOver(
  tables: Tables,
  pending: Pending,
  families: Families,
  signals: { due(delay: number): void },
): (held: HeldRow, job: NewJob, how: TakeOver, now: number) => void {
  const { db, tally } = tables
  const replace = db.prepare(sql.replace)
  const letGoOfGuard = makeLetGo(tables)
  const forgetWaits = db.prepare(waitingSql.forget)

  return (held, job, { to, due, stays }, now) => {
    const { seq, state, kind: before, readyAt, isParent } = held
    letGoOfGuard(held)
    const kind = tables.kindOf(job)
    if (!stays && state === 'pending') pending.leave(before, seq)
    if (isParent) families.fans.forget(seq)
    if (state === 'blocked') forgetWaits.run(seq)
    tally.add(before.id, state, -1)
    tally.add(kind.id, to, 1)
    replace.run(
      kind.id,
      stateNumber[to],
      job.input,
      job.overrides ?? null,
      listColumn(job.tags),
      listColumn(job.search),
      job.metadata ?? null,
      job.traffic?.group ?? null,
      job.traffic?.key ?? null,
      job.traffic?.gated ? 1 : null,
      dedupeColumn(job.dedupe),
      guardColumn(job.guard),
      to === 'scheduled' ? due : null,
      stays ? readyAt : now,
      seq,
    )
    if (to === 'scheduled') signals.due(due - now)
    else if (!stays) pending.enter(kind, seq, false)
  }
}

/** Lets go of keys of jobs that have ended, unless an older one runs that may not come back. */
export interface Forgetting {
  isDue(now: number): boolean
  /** Returns how many it looked at. */
  forget(now: number, limit: number): number
}

interface ExpiredRow {
  readonly name: string
  readonly key: string
  /** Null for a job that exists no more. */
  readonly state: number | null
}

export function makeForgetting({ db }: Tables): Forgetting {
  const expired = db.prepare<[number, number], ExpiredRow>(sql.expired)
  const renew = db.prepare(sql.renew)
  const remove = db.prepare(sql.forget)
  const runningKeys = db.prepare<[], { name: string; key: string }>(sql.runningKeys)
  const keysOfRunning = () => new Set(runningKeys.all().map(({ name, key }) => `${name}\n${key}`))

  return {
    isDue: (now) => expired.get(now, 1) !== undefined,
    forget(now, limit) {
      const rows = expired.all(now, limit)
      const running = rows.length === 0 ? undefined : keysOfRunning()
      for (const { name, key, state } of rows) {
        const isLive = state !== null && !isFinal(stateName(state))
        if (isLive || running?.has(`${name}\n${key}`)) renew.run(now + lookEvery, name, key)
        else remove.run(name, key)
      }
      return rows.length
    },
  }
}
