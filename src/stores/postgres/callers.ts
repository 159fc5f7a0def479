import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { allTaken } from '../../core/traffic/admit.js'
import { queryOf } from '../../databases/postgres/tx/query-of.js'
import { insert, insertFromHandler } from '../ledger/insert.js'
import { Needs } from '../page/needs.js'
import type { AtDesk } from './at-desk.js'
import type { CommitNews } from './commit-news.js'
import type { FastPath } from './fast-path.js'
import type { Inserter } from './insert.js'
import type { Names } from './names.js'

interface Staged {
  /** The transaction's. */
  readonly xid: string
  readonly calls: readonly (readonly NewJob[])[]
}

export interface CallersParts {
  readonly inserter: Inserter
  readonly names: Names
  readonly fastPath: FastPath
  readonly atDesk: AtDesk
  /** What is to be told when the transaction has committed. */
  later(tx: unknown, xid: string, news: CommitNews): void
}

/** Adds jobs in transactions of callers. */
export class Callers {
  readonly #parts: CallersParts
  /** What the present transaction of a caller has brought to be admitted. */
  readonly #staged = new WeakMap<object, Staged>()

  constructor(parts: CallersParts) {
    this.#parts = parts
  }

  /** The caller commits: what there is to tell waits until then. */
  async insert(tx: unknown, jobs: readonly NewJob[]): Promise<InsertResult[]> {
    const { inserter, fastPath } = this.#parts
    const query = queryOf(tx)
    if (jobs.length === 0) return []
    const tried = fastPath.takes(jobs) ? await inserter.insertWithin(query, jobs) : undefined
    if (tried?.inserted !== undefined) {
      this.#parts.later(tx, tried.xid, { ...tried.inserted, arrivals: 0 })
      return tried.inserted.results
    }
    const xid = tried?.xid ?? (await inserter.transactionId(query))
    const before = this.#staged.get(tx as object)
    // A client may have been through other transactions.
    const staged = before?.xid === xid ? before.calls : []
    const { results, now } = await this.#foresee(staged, jobs)
    allTaken(jobs, results)
    // By then some time will have passed.
    const timed = jobs.map((job) => (job.delay > 0 ? { ...job, runAt: job.runAt ?? now + job.delay } : job))
    await inserter.stage(query, timed)
    this.#staged.set(tx as object, { xid, calls: [...staged, timed] })
    this.#parts.later(tx, xid, { ready: new Set(), soonest: undefined, arrivals: 1 })
    return results
  }

  /** What will become of jobs, after others of the same transaction, as things stand. */
  async #foresee(
    staged: readonly (readonly NewJob[])[],
    jobs: readonly NewJob[],
  ): Promise<{ results: InsertResult[]; now: number }> {
    for (const job of jobs) await this.#parts.names.kind(job)
    const needs = new Needs()
    for (const { id } of [...staged.flat(), ...jobs]) needs.key('job', id)
    return this.#parts.atDesk.look(
      (tables, now) => {
        tables.each(staged, (earlier) => insertFromHandler(tables, earlier, undefined, now))
        return { results: insert(tables, jobs, now), now }
      },
      { needs },
    )
  }
}
