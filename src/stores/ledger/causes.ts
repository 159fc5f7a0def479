import type { Failure } from '../../core/job.js'
import type { Entry } from './entry.js'

/** The dead, grouped by what they died of. */
export interface Causes {
  /** Counts a death with its cause. The job is on its shelf already: its rank orders it here too. */
  add(entry: Entry, failure: Failure, now: number): void
  /** Takes a job that is dead no more out of its cause's count. */
  delete(entry: Entry): void
}
