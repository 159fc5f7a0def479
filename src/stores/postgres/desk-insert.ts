import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { insert } from '../ledger/insert.js'
import type { AtDesk } from './at-desk.js'
import { sqlState } from './errors.js'
import { carefulBatches } from './insert.js'
import { insertNeeds } from './needs.js'

/**
 * Inserts at the desk. Ids are taken for new ones, which spares a look for each: the server refuses to write one that is not,
 * and then all is done with care. So it is if any is not written.
 */
export class DeskInsert {
  readonly #desk: AtDesk
  /** Batches to come that are taken for ones with ids that may exist. */
  #careful = 0

  constructor(desk: AtDesk) {
    this.#desk = desk
  }

  async insert(jobs: readonly NewJob[]): Promise<InsertResult[]> {
    if (this.#careful > 0 || !jobs.every(isLikelyNew)) {
      this.#careful = Math.max(0, this.#careful - 1)
      return this.#insert(jobs, new Set())
    }
    try {
      return await this.#insert(jobs, new Set(jobs.map(({ id }) => id)))
    } catch (error) {
      if (!(error instanceof NotNew) && sqlState(error) !== exists) throw error
      this.#careful = carefulBatches
      return this.#insert(jobs, new Set())
    }
  }

  #insert(jobs: readonly NewJob[], fresh: ReadonlySet<string>): Promise<InsertResult[]> {
    const options = { needs: insertNeeds(jobs, fresh), fresh, like: 'insert' }
    return this.#desk.work((tables, now) => {
      const results = insert(tables, jobs, now)
      if (fresh.size > 0 && results.some(({ status }) => status !== 'inserted')) throw new NotNew()
      return results
    }, options)
  }
}

/** Some were not written: whether they exist is not known. */
class NotNew extends Error {}

const exists = '23505'

/** Others may stand for it, or it for others; and one that needs no parent leaves no link that could be refused. */
function isLikelyNew({ dedupe, family }: NewJob): boolean {
  return dedupe === undefined && family?.undoes === undefined && family?.loose !== true
}
