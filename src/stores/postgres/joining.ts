import type { NewFamily, ParentLink } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import type { Connection } from '../../databases/postgres/connection.js'
import { newLink } from '../ledger/joining.js'
import { familyText, onlyParent } from '../page/job-row.js'
import { writeLink } from '../page/links.js'
import { separator } from '../page/separator.js'
import { areAlike } from './alike.js'
import { inSchema } from './in-schema.js'
import { type Inserted, insertedPending, isPlainAmongOthers } from './insert.js'
import type { Names } from './names.js'

/** Adds children to a job that waits for others in one statement, where they differ in nothing but their inputs. */
export class Joining {
  readonly #connection: Connection
  readonly #names: Names
  readonly #now: () => number | null
  readonly #text: string

  constructor(connection: Connection, names: Names, schema: string, now: () => number | null) {
    this.#connection = connection
    this.#names = names
    this.#now = now
    this.#text = inSchema('SELECT {schema}.join_{set}($1, $2, $3, $4, $5, $6, $7, $8)', schema)
  }

  /** Those of a flow have one family between them. */
  takes(jobs: readonly NewJob[]): boolean {
    const [first] = jobs
    if (first === undefined || onlyParent(first) === undefined) return false
    return jobs.every((job) => job.family === first.family && isPlainAmongOthers(job)) && areAlike(jobs)
  }

  /** Rejects with 23505 or MR001 when nothing was done. */
  async insert(jobs: readonly NewJob[]): Promise<Inserted> {
    const [first] = jobs as [NewJob]
    const { queue, maxAttempts, maxCrashes } = first
    const family = first.family as NewFamily
    const [parent] = family.parents as readonly [ParentLink]
    await this.#connection.query({ text: this.#text }, [
      this.#now(),
      await this.#names.kind(first),
      [maxAttempts, maxCrashes],
      jobs.map(({ id }) => id).join(separator),
      jobs.map(({ input }) => input).join(separator),
      parent.id,
      familyText(family),
      writeLink(0, newLink(parent.id, parent, first)).state,
    ])
    return { results: jobs.map(() => insertedPending), ready: new Set([queue]), soonest: undefined }
  }
}
