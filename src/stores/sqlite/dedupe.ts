import {
  type Dedupe,
  holderExpiresAt,
  judgeDuplicate,
  type KeyHolder,
  lookEvery,
} from '../../core/flow/dedupe.js'
import { isFinal, type JobState, type NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { dedupe as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'

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
  { db }: Tables,
  standing: (id: string) => StandingJob | undefined,
  signals: { due(delay: number): void },
): Holders {
  const find = db.prepare<[string, string], KeyHolder>(sql.holder)
  const hold = db.prepare(sql.hold)
  const replace = db.prepare(sql.replace)
  const move = db.prepare(sql.move)

  return {
    dedupe(job, rule, now) {
      const holder = find.get(job.name, rule.key)
      const held = holder === undefined ? undefined : standing(holder.id)
      const verdict = judgeDuplicate(rule, holder, held?.state, now)
      if (verdict.do === 'insert') return { delay: verdict.delay }
      if (verdict.do === 'replace') takeOver(held as StandingJob, job, verdict.dueAt, now)
      const status = verdict.do === 'keep' ? 'duplicate' : 'replaced'
      return { status, state: held?.state, id: holder?.id as string }
    },
    hold(job, rule, now) {
      hold.run(job.name, rule.key, job.id, now, holderExpiresAt(rule, now))
    },
  }

  /** Its place, queue and lane stay. */
  function takeOver({ seq }: StandingJob, job: NewJob, dueAt: number | undefined, now: number): void {
    const tags = job.tags === undefined ? null : JSON.stringify(job.tags)
    replace.run(job.input, job.overrides ?? null, tags, job.metadata ?? null, seq)
    if (dueAt === undefined) return
    move.run(dueAt, seq)
    signals.due(Math.max(0, dueAt - now))
  }
}

/** Lets go of keys whose job has ended; a sweep's share of the work. */
export interface Forgetting {
  isDue(now: number): boolean
  forget(now: number, limit: number): void
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
      for (const { name, key, state } of expired.all(now, limit)) {
        const isLive = state !== null && !isFinal(stateName(state))
        if (isLive) renew.run(now + lookEvery, name, key)
        else remove.run(name, key)
      }
    },
  }
}
