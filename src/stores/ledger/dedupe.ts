import { isFinal, type NewJob } from '../../core/job.js'
import type { TakeOver } from '../../core/traffic/admit.js'
import {
  type Dedupe,
  heldSince,
  holderExpiresAt,
  lookEvery,
  newestWins,
  onReturn,
  takesKeyAgain,
} from '../../core/traffic/dedupe.js'
import { type Entry, storyOf } from './entry.js'
import { forgetFans } from './fans.js'
import { letGoOfGuard } from './guard.js'
import { type Book, type Shelf, start } from './shelf.js'
import type { Tables } from './tables.js'

/** Who has a key. */
export interface Holder {
  readonly name: string
  readonly key: string
  readonly id: string
  readonly since: number
  /** Orders holders by when they are worth a look. */
  readonly rank: number
  readonly seq: number
}

export class Holders {
  readonly #byKey: Book<Holder>
  readonly #byTime: Shelf<Holder>
  readonly #nextSeq: () => number

  constructor(byKey: Book<Holder>, byTime: Shelf<Holder>, nextSeq: () => number) {
    this.#byKey = byKey
    this.#byTime = byTime
    this.#nextSeq = nextSeq
  }

  get(name: string, key: string): Holder | undefined {
    return this.#byKey.get(holderKey(name, key))
  }

  set(name: string, key: string, id: string, since: number, expiresAt: number): void {
    this.delete(name, key)
    const holder = { name, key, id, since, rank: expiresAt, seq: this.#nextSeq() }
    this.#byKey.set(holderKey(name, key), holder)
    this.#byTime.add(holder)
  }

  delete(name: string, key: string): void {
    const holder = this.get(name, key)
    if (holder === undefined) return
    this.#byKey.delete(holderKey(name, key))
    this.#byTime.delete(holder)
  }

  /** Lets go of those that nobody needs, a bounded number; returns how many it looked at. */
  forget(now: number, limit: number, isNeeded: (holder: Holder) => boolean): number {
    const due: Holder[] = []
    for (const holder of this.#byTime.after(start.rank, start.seq, limit)) {
      if (holder.rank > now || due.length === limit) break
      due.push(holder)
    }
    for (const holder of due) {
      const { name, key, id, since } = holder
      if (isNeeded(holder)) this.set(name, key, id, since, now + lookEvery)
      else this.delete(name, key)
    }
    return due.length
  }
}

export function holderKey(name: string, key: string): string {
  return `${name}\n${key}`
}

export function holdKey({ holders }: Tables, { name, id }: NewJob, rule: Dedupe, now: number): void {
  holders.set(name, rule.key, id, now, holderExpiresAt(rule, now))
}

function holdOwn(tables: Tables, { job, createdAt }: Entry, rule: Dedupe, now: number): void {
  holdKey(tables, job, rule, heldSince(createdAt, now))
}

/** Of jobs that have ended, unless an older one runs that may not come back. */
export function forgetKeys(tables: Tables, now: number, limit: number): number {
  let running: ReadonlySet<string> | undefined
  return tables.holders.forget(now, limit, ({ name, key, id }) => {
    if (isLive(tables, id)) return true
    running ??= tables.keysOfRunning()
    return running.has(holderKey(name, key))
  })
}

function isLive({ jobs }: Tables, id: string): boolean {
  const entry = jobs.get(id)
  return entry !== undefined && !isFinal(entry.state)
}

export function takeOver(tables: Tables, entry: Entry, job: NewJob, how: TakeOver, now: number): void {
  const { to, due, stays } = how
  if (!stays) tables.leave(entry)
  letGoOfGuard(tables, entry)
  entry.job = { ...job, id: entry.job.id }
  const story = storyOf(entry)
  story.attempt = 0
  story.crashes = 0
  story.retryDelay = 0
  story.startedAt = undefined
  forgetFans(entry)
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
export function keepsKey(tables: Tables, entry: Entry, now: number): boolean {
  const { job } = entry
  const rule = ruleOfNewest(job)
  if (rule === undefined) return true
  const verdict = onReturn(tables.holders.get(job.name, rule.key), job.id)
  if (verdict === 'take') holdOwn(tables, entry, rule, now)
  return verdict !== 'give way'
}

/** It is cancelled or removed: nobody gives way to it. */
export function letGo({ holders }: Tables, { job }: Entry): void {
  const rule = ruleOfNewest(job)
  if (rule !== undefined && holders.get(job.name, rule.key)?.id === job.id) holders.delete(job.name, rule.key)
}

/** It lives again: the key is its own, unless another has it that waits or runs. */
export function holdAgain(tables: Tables, entry: Entry, now: number): void {
  const { job } = entry
  const rule = ruleOfNewest(job)
  if (rule === undefined) return
  const holder = tables.holders.get(job.name, rule.key)
  const state = holder === undefined ? undefined : tables.jobs.get(holder.id)?.state
  if (takesKeyAgain(holder, state)) holdOwn(tables, entry, rule, now)
}

/** Of a job that gives way to newer ones. */
export function ruleOfNewest({ dedupe }: NewJob): Dedupe | undefined {
  return dedupe !== undefined && newestWins(dedupe.mode) ? dedupe : undefined
}
