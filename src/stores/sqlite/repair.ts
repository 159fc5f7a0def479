import { type Failure, type FinalState, isFinal } from '../../core/job.js'
import type { Families } from './family.js'
import { parse } from './parse.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'
import type { Waiting } from './waiting.js'

/** How many blocked jobs a sweep looks at, and how many of a parent's links it mends. */
const jobsPerSweep = 50
const linksPerParent = 100

/** What a parent was found to be wrong about. */
export interface Finding {
  readonly seq: number
  /** A child that it waits for in vain; undefined when it waits for none. */
  readonly child: OpenChild | undefined
}

interface OpenChild {
  readonly child: string
  /** Null for a job that exists no more. */
  readonly state: number | null
  readonly result: string | null
  readonly failure: string | null
}

export interface Repair {
  /** Looks at the next few; reads only. */
  look(): Finding[]
  mend(findings: readonly Finding[], now: number): void
}

/**
 * A parent whose count is wrong would wait for ever. Looks at all of them in turn, a few per sweep; not at those that
 * a time wakes, which find out by themselves.
 */
export function makeRepair(tables: Tables, families: Families, waiting: Waiting): Repair {
  const { db } = tables
  const untimed = db.prepare<[number, number], { seq: number; isParent: number | null }>(sql.untimed)
  const openChild = db.prepare<[number], OpenChild>(sql.openChild)
  const waitForNothing = db.prepare(sql.waitForNothing)
  const jobAt = db.prepare<[number], { state: number }>(sql.job)
  let at = 0

  return { look, mend }

  function look(): Finding[] {
    const jobs = untimed.all(at, jobsPerSweep)
    at = jobs.length < jobsPerSweep ? 0 : (jobs.at(-1)?.seq ?? 0)
    const parents = jobs.filter(({ isParent }) => isParent === 1)
    return parents.map(({ seq }) => find(seq)).filter((finding) => finding !== undefined)
  }

  function find(seq: number): Finding | undefined {
    const child = openChild.get(seq)
    return child === undefined || isOver(child) ? { seq, child } : undefined
  }

  function mend(findings: readonly Finding[], now: number): void {
    for (const { seq } of findings) mendParent(seq, now)
  }

  function mendParent(seq: number, now: number): void {
    for (let i = 0; i < linksPerParent; i++) {
      const parent = jobAt.get(seq)
      if (parent === undefined || stateName(parent.state) !== 'blocked') return
      const finding = find(seq)
      if (finding === undefined) return
      if (finding.child === undefined) {
        waitForNothing.run(seq)
        return waiting.wake(seq, now)
      }
      families.ended({ family: null, parent: seq }, endOf(finding.child), now)
    }
  }
}

function isOver({ state }: OpenChild): boolean {
  return state === null || isFinal(stateName(state))
}

function endOf({ child, state, result, failure }: OpenChild) {
  return {
    id: child,
    end: state === null ? ('cancelled' as const) : (stateName(state) as FinalState),
    result: result ?? undefined,
    failure: parse<Failure>(failure),
  }
}
