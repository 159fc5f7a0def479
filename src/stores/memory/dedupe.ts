import { type Dedupe, holderExpiresAt, judgeDuplicate, lookEvery } from '../../core/flow/dedupe.js'
import { isFinal, type NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import type { Entry } from './entry.js'
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

  /** Lets go of those whose job has ended, a bounded number. */
  forget(now: number, limit: number, isLive: (id: string) => boolean): void {
    for (let looked = 0; looked < limit; looked++) {
      const holder = this.#byTime.first
      if (holder === undefined || holder.rank > now) return
      if (isLive(holder.id)) this.set(holder.name, holder.id, holder.since, now + lookEvery)
      else this.delete(holder.name)
    }
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

/** The waiting job goes on with what the new one brings; its place, queue and lane stay. */
function replace(tables: Tables, entry: Entry, job: NewJob, dueAt: number | undefined, now: number): void {
  const { input, overrides, tags, metadata } = job
  entry.job = { ...entry.job, input, overrides, tags, metadata }
  if (dueAt === undefined) return
  tables.leave(entry)
  tables.enter(entry, 'scheduled', dueAt)
  tables.signals.due(Math.max(0, dueAt - now))
}

function keyOf({ name }: NewJob, { key }: Dedupe): string {
  return `${name}\n${key}`
}
