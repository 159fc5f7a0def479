import type { FinalState } from '../../core/job.js'
import { sweep as sql } from './sql.generated.js'
import type { Staying } from './staying.js'
import { stateNumber, type Tables } from './tables.js'

export interface FinishedRow {
  readonly seq: number
  readonly kind: number
  readonly state: number
  readonly cause: string | null
  readonly expires_at: number
}

/** Finished jobs beyond the number that is kept: those closest to their expiry, without those that stay. Only reads. */
export type FindSurplus = (state: FinalState, count: number, looks: number) => FinishedRow[]

type Place = Pick<FinishedRow, 'seq' | 'expires_at'>

const start: Place = { expires_at: Number.MIN_SAFE_INTEGER, seq: 0 }

export function makeFindSurplus({ db }: Tables, staying: Staying): FindSurplus {
  const finished = db.prepare<[number, number, number, number], FinishedRow>(sql.finished)
  // Where a look ended that found too few among those that stay: the next one goes on from there.
  const ends = new Map<FinalState, Place>()

  return (state, count, looks) => {
    const from = ends.get(state) ?? start
    const found: FinishedRow[] = []
    const rows = count > 0 ? finished.all(stateNumber[state], from.expires_at, from.seq, looks) : []
    for (const row of rows) {
      if (!staying.isNeeded(row)) found.push(row)
      if (found.length === count) break
    }
    if (found.length > 0 && found.length === count) return found
    const last = rows.at(-1)
    if (last === undefined || rows.length < looks) ends.delete(state)
    else ends.set(state, last)
    return found
  }
}
