import type { FinalState } from '../../core/job.js'
import type { Entry } from './entry.js'
import { type Ranked, start } from './shelf.js'
import { isNeeded } from './staying.js'
import type { Tables } from './tables.js'

/** Finished jobs beyond the number that is kept: those closest to their expiry, without those that stay. */
export class Surplus {
  /** Where a look ended that found too few among those that stay: the next one goes on from there. */
  readonly #ends: Map<FinalState, Ranked>

  constructor(ends = new Map<FinalState, Ranked>()) {
    this.#ends = ends
  }

  find(tables: Tables, state: FinalState, count: number, looks: number): Entry[] {
    const from = this.#ends.get(state) ?? start
    const found: Entry[] = []
    let last: Entry | undefined
    let looked = 0
    if (count > 0 && looks > 0) {
      for (const entry of tables.shelves[state].after(from.rank, from.seq, Math.min(count, looks))) {
        last = entry
        if (!isNeeded(tables, entry)) found.push(entry)
        if (++looked === looks || found.length === count) break
      }
    }
    if (found.length > 0 && found.length === count) return found
    if (last === undefined || looked < looks) this.#ends.delete(state)
    else this.#ends.set(state, { rank: last.rank, seq: last.seq })
    return found
  }
}
