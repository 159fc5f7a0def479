import { afterSeal, type Family } from '../../core/family.js'
import type { JobState } from '../../core/job.js'
import { makeEnds } from './ends.js'
import { makeFans } from './fans.js'
import { makeJoining } from './joining.js'
import { type Counts, childless, type JobAt, type Kin, parentsOf, type StoredFamily } from './kin.js'
import { parse } from './parse.js'
import type { Pending } from './pending.js'
import { makeReplays } from './replays.js'
import { family as sql } from './sql.generated.js'
import type { Tables } from './tables.js'
import type { Waiting } from './waiting.js'

export type Families = ReturnType<typeof makeFamilies>

/** Keeps who waits for whom, inside the current transaction. */
export function makeFamilies(
  tables: Tables,
  pending: Pending,
  waiting: Waiting,
  forgetDeath: (cause: string) => void,
) {
  const { db } = tables
  const jobAt = db.prepare<[number], JobAt>(sql.job)
  const sealOne = db.prepare<[number], { waiting: number; alarmed: number }>(sql.seal)
  const counts = db.prepare<[number], Counts>(sql.family)
  const parentOf = db.prepare<[number, string], { id: string; family: string | null }>(sql.parentOf)
  const hasOpen = db.prepare<[number]>(sql.hasOpenChildren)
  const fans = makeFans(tables)

  return {
    ...makeJoining(tables, waiting),
    ...makeEnds(tables, waiting, fans),
    ...makeReplays(tables, pending, waiting, fans, forgetDeath),
    fans,
    seal,
    of,
    at,
    hasOpenChildren,
  }

  /** Undefined for a job that was not open. */
  function seal(seq: number, state: JobState): ReturnType<typeof afterSeal> | undefined {
    const sealed = sealOne.get(seq)
    return sealed && afterSeal({ state, waiting: sealed.waiting }, sealed.alarmed === 1)
  }

  function at(seq: number): Family | undefined {
    const row = jobAt.get(seq)
    return row && of(row)
  }

  /** Whether it has children that have not ended, its steps' among them, or may get more. */
  function hasOpenChildren(seq: number): boolean {
    return hasOpen.get(seq) !== undefined
  }

  function of(row: Kin & { readonly seq: number; readonly id: string }): Family | undefined {
    if (row.family === null && row.parent === null) return undefined
    const parents = parentsOf(row).flatMap((seq) => parentOf.get(seq, row.id) ?? [])
    const stored = parse<StoredFamily>(row.family) ?? parse<StoredFamily>(parents[0]?.family ?? null)
    const known = counts.get(row.seq) ?? childless
    return {
      flow: stored?.flow ?? row.id,
      node: (row.family === null ? null : stored?.node) ?? undefined,
      parents: parents.map(({ id }) => id),
      children: known.children,
      waiting: known.waiting + known.fanned,
      failed: known.failed,
      open: known.open === 1,
      replays: known.replays,
      compensated: known.compensated === 1,
    }
  }
}
