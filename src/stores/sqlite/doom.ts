import { isFinal } from '../../core/job.js'
import { cancelledRetain } from '../../core/lifecycle.js'
import { parentsOf } from './kin.js'
import type { JobRow } from './read.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'

export interface Doom {
  /** Whether there are children left to be cancelled. */
  isDue(): boolean
  /** Goes on cancelling children of cancelled jobs, `limit` of them; returns how many it looked at. */
  carryOut(limit: number): number
}

/** The children of a cancelled job are not needed any more, unless others wait for them too. */
export function makeDoomMark({ db }: Tables): (seq: number) => void {
  const mark = db.prepare(sql.doom)
  return (seq) => void mark.run(seq)
}

export function makeDoom(
  { db }: Tables,
  rowOf: (id: string) => JobRow | undefined,
  cancel: (row: JobRow, reason: string, retain: number) => void,
): Doom {
  const doomed = db.prepare<[], { seq: number; doomed: string; reason: string | null }>(sql.doomed)
  const children = db.prepare<[number, string, number], { child: string; state: number | null }>(
    sql.doomedChildren,
  )
  const goOn = db.prepare(sql.doomOn)
  const parentOf = db.prepare<[number, string], { state: number }>(sql.parentOf)

  return {
    isDue: () => doomed.get() !== undefined,
    carryOut,
  }

  function carryOut(limit: number): number {
    let looked = 0
    while (looked < limit) {
      const parent = doomed.get()
      if (parent === undefined) break
      const rows = children.all(parent.seq, parent.doomed, limit - looked)
      for (const { child, state } of rows) if (state === null) cancelUnwanted(child, parent.reason ?? '')
      const last = rows.length < limit - looked ? null : (rows.at(-1)?.child ?? null)
      goOn.run(last, parent.seq)
      looked += Math.max(1, rows.length)
    }
    return looked
  }

  function cancelUnwanted(id: string, reason: string): void {
    const row = rowOf(id)
    if (row === undefined) return
    const isWanted = parentsOf(row).some((seq) => {
      const parent = parentOf.get(seq, id)
      return parent !== undefined && !isFinal(stateName(parent.state))
    })
    if (!isWanted) cancel(row, reason, cancelledRetain)
  }
}
