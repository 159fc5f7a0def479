import type { TakeOver } from '../../core/flow/admit.js'
import { type Dedupe, holderExpiresAt, lookEvery, newestWins } from '../../core/flow/dedupe.js'
import { isFinal, type NewJob } from '../../core/job.js'
import { type Entry, storyOf } from './entry.js'
import { Sorted } from './sorted.js'
import type { Tables } from './tables.js'

/** Who has a key. */
interface Holder {
  readonly name: string
  readonly key: string
  readonly id: string
  readonly since: number
  /** Orders holders by when they are worth a look. */
  readonly rank: number
  readonly seq: number
}

export class Holders {
  readonly #byKey = new Map<string, Holder>()
  readonly #byTime = new Sorted<Holder>()
  #count = 0

  get(name: string, key: string): Holder | undefined {
    return this.#byKey.get(`${name}\n${key}`)
  }

  set(name: string, key: string, id: string, since: number, expiresAt: number): void {
    this.delete(name, key)
    const holder = { name, key, id, since, rank: expiresAt, seq: ++this.#count }
    this.#byKey.set(`${name}\n${key}`, holder)
    this.#byTime.add(holder)
  }

  delete(name: string, key: string): void {
    const holder = this.get(name, key)
    if (holder === undefined) return
    this.#byKey.delete(`${name}\n${key}`)
    this.#byTime.delete(holder)
  }

  /** Lets go of those whose job has ended, a bounded number; returns how many it looked at. */
  forget(now: number, limit: number, isLive: (id: string) => boolean): number {
    for (let looked = 0; looked < limit; looked++) {
      const holder = this.#byTime.first
      if (holder === undefined || holder.rank > now) return looked
      const { name, key, id, since } = holder
      if (isLive(id)) this.set(name, key, id, since, now + lookEvery)
      else this.delete(name, key)
    }
    return limit
  }
}

export function holdKey({ holders }: Tables, { name, id }: NewJob, rule: Dedupe, now: number): void {
  holders.set(name, rule.key, id, now, holderExpiresAt(rule, now))
}

export function isLive({ jobs }: Tables, id: string): boolean {
  const entry = jobs.get(id)
  return entry !== undefined && !isFinal(entry.state)
}

export function takeOver(tables: Tables, entry: Entry, job: NewJob, how: TakeOver, now: number): void {
  const { to, due, stays } = how
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
  if (to === 'scheduled') {
    tables.enter(entry, 'scheduled', due)
    tables.signals.due(due - now)
  } else {
    story.readyAt = now
    tables.enter(entry, 'pending', 0)
  }
}

/** Whether a job that would come back has its key still, and no newer one does; a key that is free it takes. */
export function keepsKey(tables: Tables, { job }: Entry, now: number): boolean {
  const rule = ruleOfNewest(job)
  if (rule === undefined) return true
  const holder = tables.holders.get(job.name, rule.key)
  if (holder === undefined) holdKey(tables, job, rule, now)
  return holder === undefined || holder.id === job.id
}

/** It is cancelled or removed: nobody gives way to it. */
export function letGo({ holders }: Tables, { job }: Entry): void {
  const rule = ruleOfNewest(job)
  if (rule !== undefined && holders.get(job.name, rule.key)?.id === job.id) holders.delete(job.name, rule.key)
}

/** It lives again: the key is its own, unless another has it that waits or runs. */
export function holdAgain(tables: Tables, { job }: Entry, now: number): void {
  const rule = ruleOfNewest(job)
  if (rule === undefined) return
  const holder = tables.holders.get(job.name, rule.key)
  if (holder === undefined || !isLive(tables, holder.id)) holdKey(tables, job, rule, now)
}

function ruleOfNewest({ dedupe }: NewJob): Dedupe | undefined {
  return dedupe !== undefined && newestWins(dedupe.mode) ? dedupe : undefined
}
