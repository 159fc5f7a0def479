import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { insert } from '../ledger/insert.js'
import type { WorkAtDesk } from './desk-options.js'
import { insertNeeds } from './insert-needs.js'

/** Batches after one with an id that exists: others may well have some too. */
export const carefulBatches = 100

/**
 * Inserts at the desk. Ids are taken for new ones, which spares a look for each: the server refuses to write one that is not,
 * and then all is done with care. So it is if any is not written.
 */
export class DeskInsert {
  readonly #work: WorkAtDesk
  /** Whether the server said that an id is not new. */
  readonly #isKnown: (error: unknown) => boolean
  /** Batches to come that are taken for ones with ids that may exist. */
  #careful = 0

  constructor(work: WorkAtDesk, isKnown: (error: unknown) => boolean) {
    this.#work = work
    this.#isKnown = isKnown
  }

  async insert(jobs: readonly NewJob[]): Promise<InsertResult[]> {
    if (this.#careful > 0 || !jobs.every(isLikelyNew)) {
      this.#careful = Math.max(0, this.#careful - 1)
      return this.#insert(jobs, new Set())
    }
    try {
      return await this.#insert(jobs, new Set(jobs.map(({ id }) => id)))
    } catch (error) {
      if (!(error instanceof NotNew) && !this.#isKnown(error)) throw error
      this.#careful = carefulBatches
      return this.#insert(jobs, new Set())
    }
  }

  #insert(jobs: readonly NewJob[], fresh: ReadonlySet<string>): Promise<InsertResult[]> {
    const queues = jobs.map(({ queue }) => queue)
    const options = { needs: insertNeeds(jobs, fresh), fresh, like: 'insert', queues }
    return this.#work((tables, now) => {
      const results = insert(tables, jobs, now)
      if (fresh.size > 0 && results.some(({ status }) => status !== 'inserted')) throw new NotNew()
      return results
    }, options)
  }
}

/** Some were not written: whether they exist is not known. */
class NotNew extends Error {}

/** Others may stand for it, or it for others; and one that needs no parent leaves no link that could be refused. */
function isLikelyNew({ dedupe, family }: NewJob): boolean {
  return dedupe === undefined && family?.undoes === undefined && family?.loose !== true
}
