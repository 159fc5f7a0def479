import {
  type Dedupe,
  holderExpiresAt,
  judgeDuplicate,
  type KeyHolder,
  lookEvery,
} from '../../core/flow/dedupe.js'
import { isFinal, type JobState, type NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { SubjectRow } from './flow.js'
import type { Pending } from './pending.js'
import { flow as flowSql, dedupe as sql } from './sql.generated.js'
import { type Kind, stateName, stateNumber, type Tables } from './tables.js'

export interface StandingJob {
  readonly seq: number
  readonly state: JobState
}

export interface Holders {
  /** What becomes of a job whose key another may have: the answer, or how long it must wait. */
  dedupe(job: NewJob, rule: Dedupe, now: number): InsertResult | { readonly delay: number }
  hold(job: NewJob, rule: Dedupe, now: number): void
}

/** Keys of jobs that are deduped, inside the current transaction. */
export function makeHolders(
  tables: Tables,
  pending: Pending,
  standing: (id: string) => StandingJob | undefined,
  signals: { due(delay: number): void },
): Holders {
  const { db, tally } = tables
  const find = db.prepare<[string, string], KeyHolder>(sql.holder)
  const hold = db.prepare(sql.hold)
  const replace = db.prepare(sql.replace)
  const subject = db.prepare<[number], SubjectRow>(flowSql.subject)

  return {
    dedupe(job, rule, now) {
      const holder = find.get(job.name, rule.key)
      const held = holder === undefined ? undefined : standing(holder.id)
      const verdict = judgeDuplicate(rule, holder, held?.state, now)
      if (verdict.do === 'insert') return { delay: verdict.delay }
      const id = holder?.id as string
      if (verdict.do === 'keep') return { status: 'duplicate', state: held?.state, id }
      return { status: 'replaced', state: takeOver(held as StandingJob, job, verdict.dueAt, now), id }
    },
    hold(job, rule, now) {
      hold.run(job.name, rule.key, job.id, now, holderExpiresAt(rule, now))
    },
  }

  /** Where nothing else changes it keeps its place. */
  function takeOver(
    { seq, state }: StandingJob,
    job: NewJob,
    dueAt: number | undefined,
    now: number,
  ): JobState {
    const due = dueAt ?? job.runAt ?? now + job.delay
    const to = due > now ? 'scheduled' : 'pending'
    const row = subject.get(seq) as SubjectRow
    const [before, kind] = [tables.kind(row.kind), tables.kindOf(job)]
    const stays = state === 'pending' && to === 'pending' && isAlike(row, before, job)
    if (!stays && state === 'pending') pending.leave(before, seq)
    tally.add(before.id, state, -1)
    tally.add(kind.id, to, 1)
    replace.run(
      kind.id,
      stateNumber[to],
      job.input,
      job.overrides ?? null,
      job.tags === undefined ? null : JSON.stringify(job.tags),
      job.metadata ?? null,
      job.flow?.group ?? null,
      job.flow?.key ?? null,
      job.flow?.gated ? 1 : null,
      to === 'scheduled' ? due : null,
      stays ? row.readyAt : now,
      seq,
    )
    if (to === 'scheduled') signals.due(due - now)
    else if (!stays) pending.enter(kind, seq, false)
    return to
  }
}

function isAlike({ grp, key }: SubjectRow, { queue, lane }: Kind, job: NewJob): boolean {
  const { group, key: jobKey } = job.flow ?? {}
  return (
    queue === job.queue && lane === job.lane && (grp ?? undefined) === group && (key ?? undefined) === jobKey
  )
}

/** Lets go of keys whose job has ended; a sweep's share of the work. */
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

  return {
    isDue: (now) => expired.get(now, 1) !== undefined,
    forget(now, limit) {
      const rows = expired.all(now, limit)
      for (const { name, key, state } of rows) {
        const isLive = state !== null && !isFinal(stateName(state))
        if (isLive) renew.run(now + lookEvery, name, key)
        else remove.run(name, key)
      }
      return rows.length
    },
  }
}
