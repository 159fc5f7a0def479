import {
  type Dedupe,
  holderExpiresAt,
  judgeDuplicate,
  lookEvery,
  newestWins,
} from '../../core/flow/dedupe.js'
import { isFinal, type NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { type Entry, storyOf } from './entry.js'
import { Sorted } from './sorted.js'
import type { Tables } from './tables.js'

/** Who has a key. */
interface Holder {
  readonly name: string
  readonly id: string
  readonly since: number
  /** Orders holders by when they are worth a look. */
  rank: number
  readonly seq: number
}

export class Holders {
  readonly #byName = new Map<string, Holder>()
  readonly #byTime = new Sorted<Holder>()
  #count = 0

  get(name: string): Holder | undefined {
    return this.#byName.get(name)
  }

  set(name: string, id: string, since: number, expiresAt: number): void {
    this.delete(name)
    const holder = { name, id, since, rank: expiresAt, seq: ++this.#count }
    this.#byName.set(name, holder)
    this.#byTime.add(holder)
  }

  delete(name: string): void {
    const holder = this.#byName.get(name)
    if (holder === undefined) return
    this.#byName.delete(name)
    this.#byTime.delete(holder)
  }

  /** Lets go of those whose job has ended, a bounded number; returns how many it looked at. */
  forget(now: number, limit: number, isLive: (id: string) => boolean): number {
    for (let looked = 0; looked < limit; looked++) {
      const holder = this.#byTime.first
      if (holder === undefined || holder.rank > now) return looked
      if (isLive(holder.id)) this.set(holder.name, holder.id, holder.since, now + lookEvery)
      else this.delete(holder.name)
    }
    return limit
  }
}

/** What becomes of a job whose key another may have: the answer, or how long it must wait. */
export function dedupe(
  tables: Tables,
  job: NewJob,
  rule: Dedupe,
  now: number,
): InsertResult | { readonly delay: number } {
  const holder = tables.holders.get(keyOf(job, rule))
  const entry = holder === undefined ? undefined : tables.jobs.get(holder.id)
  const verdict = judgeDuplicate(rule, holder, entry?.state, now)
  if (verdict.do === 'insert') return { delay: verdict.delay }
  if (verdict.do === 'replace') replace(tables, entry as Entry, job, verdict.dueAt, now)
  const status = verdict.do === 'keep' ? 'duplicate' : 'replaced'
  return { status, state: entry?.state, id: holder?.id as string }
}

export function holdKey({ holders }: Tables, job: NewJob, rule: Dedupe, now: number): void {
  holders.set(keyOf(job, rule), job.id, now, holderExpiresAt(rule, now))
}

export function isLive({ jobs }: Tables, id: string): boolean {
  const entry = jobs.get(id)
  return entry !== undefined && !isFinal(entry.state)
}

/** The waiting job becomes the new one, but for its id; where nothing else changes it keeps its place. */
function replace(tables: Tables, entry: Entry, job: NewJob, dueAt: number | undefined, now: number): void {
  const due = dueAt ?? job.runAt ?? now + job.delay
  const stays = entry.state === 'pending' && due <= now && isAlike(entry.job, job)
  if (!stays) tables.leave(entry)
  entry.job = { ...job, id: entry.job.id }
  const story = storyOf(entry)
  story.attempt = 0
  story.crashes = 0
  story.retryDelay = 0
  if (stays) return
  entry.kind = tables.kinds.of(entry.job)
  // It stands in line as one that has never run.
  entry.state = 'scheduled'
  if (due > now) {
    tables.enter(entry, 'scheduled', due)
    tables.signals.due(due - now)
  } else {
    story.readyAt = now
    tables.enter(entry, 'pending', 0)
  }
}

function isAlike(a: NewJob, b: NewJob): boolean {
  return (
    a.queue === b.queue && a.lane === b.lane && a.flow?.group === b.flow?.group && a.flow?.key === b.flow?.key
  )
}

/** Whether a newer job has the key of one that would come back. */
export function isSuperseded({ holders }: Tables, { job }: Entry): boolean {
  if (job.dedupe === undefined || !newestWins(job.dedupe.mode)) return false
  const holder = holders.get(keyOf(job, job.dedupe))
  return holder !== undefined && holder.id !== job.id
}

function keyOf({ name }: NewJob, { key }: Dedupe): string {
  return `${name}\n${key}`
}
