import type { Needs } from './needs.js'
import type { PagedTables } from './tables.js'
import type { Verb } from './trying.js'

export interface DeskOptions {
  /** Jobs that are likely to be asked for at once. */
  readonly count?: number
  readonly renewsByTaking?: boolean
  /** What the verb is known to need. */
  readonly needs?: Needs
  /** Nothing is done by count; see counted.ts. */
  readonly isWhole?: boolean
  /** Ids that are taken for new; if one is not, the server refuses to write. */
  readonly fresh?: ReadonlySet<string>
  /** What others of that name have needed is read at once. */
  readonly like?: string
  /** Queues that it adds jobs to, or claims from. */
  readonly queues?: Iterable<string>
}

/** Does a verb at an engine's desk. `after`: completes what came of it, before anybody is told. */
export type WorkAtDesk = <T>(
  verb: Verb<T>,
  options: DeskOptions,
  after?: (result: T, tables: PagedTables) => void,
) => Promise<T>
