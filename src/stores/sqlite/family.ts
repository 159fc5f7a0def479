import { shortFailure } from '../../core/failure.js'
import {
  afterSeal,
  type FailurePolicy,
  type Family,
  type NewFamily,
  onReplay,
  standsInTheWay,
  takesChildren,
  wakesParent,
} from '../../core/family.js'
import type { Failure, FinalState, JobState, NewJob } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import { parse } from './parse.js'
import { type Positions, prepareAt } from './positions.js'
import { family as sql } from './sql.generated.js'
import { stateName, stateNumber, type Tables } from './tables.js'
import type { Waiting } from './waiting.js'

/** What a job's row says of its family: parents by position, which a child's end needs, and by id. */
interface StoredFamily {
  readonly flow: string
  readonly node: string | null
  readonly parents: readonly (readonly [seq: number, id: string])[]
}

interface ParentRow {
  readonly seq: number
  readonly state: number
  readonly waiting: number
  /** It is part of a family already. */
  readonly known: number
}

/** How a child ended. */
export interface ChildEnd {
  readonly id: string
  readonly end: FinalState
  readonly result: string | undefined
  readonly failure: Failure | undefined
}

export type Families = ReturnType<typeof makeFamilies>

/** Keeps who waits for whom, inside the current transaction. */
export function makeFamilies(tables: Tables, waiting: Waiting, forgetDeath: (cause: string) => void) {
  const { db, tally } = tables
  const parentById = db.prepare<[string], ParentRow>(sql.parent)
  const isLinked = db.prepare<[number, string]>(sql.isLinked)
  const link = db.prepare(sql.link)
  const addParent = db.prepare(sql.addParent)
  const addChildren = db.prepare(sql.addChildren)
  const becomeParent = db.prepare(sql.becomeParent)
  const childrenOf = prepareAt<{ seq: number; id: string; family: string }>(db, sql.childrenOf)
  const end = db.prepare<unknown[], { on_failure: FailurePolicy; wakes: number }>(sql.end)
  const lessWaiting = db.prepare<[number, number, number], number>(sql.lessWaiting).pluck()
  const alarm = db.prepare(sql.alarm)
  const jobAt = db.prepare<[number], JobAt>(sql.job)
  const endOf = db.prepare<[number, string], { state: number | null; on_failure: FailurePolicy }>(sql.endOf)
  const reopen = db.prepare(sql.reopen)
  const moreWaiting = db.prepare(sql.moreWaiting)
  const reviveOne = db.prepare(sql.revive)
  const startOverOne = db.prepare<[number], number>(sql.startOver).pluck()
  const sealOne = db.prepare<[number], { waiting: number; alarmed: number }>(sql.seal)
  const family = db.prepare<[number], Counts>(sql.family)
  const waits = db.prepare<[number]>(sql.isWaiting)

  return { joining, together, ended, endedAt, replayed, startOver, seal, of, at, isWaiting }

  /** For the jobs of one insert; `by` is the job whose run adds them. */
  function joining(by: string | undefined) {
    const found = new Map<string, ParentRow | undefined>()
    const added = new Map<ParentRow, number>()
    const building = new Map<string, number>()
    const texts = new Map<NewJob, string>()

    return { join, textOf, built, end }

    /** Makes a new job a child of its parents: of all, or of none. */
    function join(job: NewJob): 'joined' | 'known' | 'orphaned' {
      const own = job.family as NewFamily
      const parents = own.parents.map(({ id }) => find(id))
      if (parents.some((parent) => parent !== undefined && isLinked.get(parent.seq, job.id) !== undefined))
        return 'known'
      if (!own.parents.every(({ id }, i) => mayJoin(parents[i], id === by || building.has(id))))
        return 'orphaned'
      own.parents.forEach(({ onFailure, wakes, undo }, i) => {
        const parent = parents[i] as ParentRow
        link.run(parent.seq, job.id, job.name, own.node ?? null, onFailure, wakes ? 1 : 0, undo ?? null)
        added.set(parent, (added.get(parent) ?? 0) + 1)
      })
      texts.set(job, textFor(own, parents as ParentRow[]))
      return 'joined'
    }

    function find(id: string): ParentRow | undefined {
      if (!found.has(id)) found.set(id, parentById.get(id))
      return found.get(id)
    }

    /** For the job's own row. */
    function textOf(job: NewJob): string | null {
      if (job.family === undefined) return null
      return texts.get(job) ?? textFor(job.family, [])
    }

    /** A job that waits for children was added. */
    function built(job: NewJob, seq: number): void {
      found.delete(job.id)
      const open = job.family?.waits === 'open' ? 1 : 0
      addParent.run(seq, open, open)
      building.set(job.id, seq)
    }

    function end(now: number): void {
      for (const [{ seq, known }, count] of added) {
        addChildren.run(seq, count, count)
        if (known === 0) becomeParent.run(JSON.stringify(nobody(idOf(seq))), seq)
      }
      // One that got no child after all need not wait.
      for (const seq of building.values()) if (!isWaiting(seq)) waiting.wake(seq, now)
    }
  }

  function idOf(seq: number): string {
    return (jobAt.get(seq) as JobAt).id
  }

  /** Tells the parents of jobs that completed under one claim; `endOf` says how each ended. */
  function together(positions: Positions, endOf: (seq: number, id: string) => ChildEnd, now: number): void {
    const ends = new Ends()
    for (const row of childrenOf.all([], positions)) tell(row.family, endOf(row.seq, row.id), ends, now)
    release(ends, now)
  }

  /** The same for one job, by what its row says of its family. */
  function ended(stored: string | null, child: ChildEnd, now: number): void {
    if (stored === null) return
    const ends = new Ends()
    tell(stored, child, ends, now)
    release(ends, now)
  }

  function endedAt(
    seq: number,
    end: FinalState,
    { result, failure }: Pick<Outcome, 'result' | 'failure'>,
    now: number,
  ): void {
    const row = jobAt.get(seq)
    if (row !== undefined) ended(row.family, { id: row.id, end, result, failure }, now)
  }

  function tell(stored: string, child: ChildEnd, ends: Ends, now: number): void {
    const failure = child.failure === undefined ? null : JSON.stringify(shortFailure(child.failure))
    for (const [seq] of parentsOf(stored)) {
      const ended = end.get(stateNumber[child.end], now, child.result ?? null, failure, seq, child.id)
      if (ended !== undefined) ends.add(seq, child.end, ended.on_failure, ended.wakes === 1)
    }
  }

  /** Wakes the parents that need not wait any longer. */
  function release(ends: Ends, now: number): void {
    for (const [seq, { count, failed, alarms }] of ends.byParent) {
      const left = lessWaiting.get(count, failed, seq)
      const parent = left === undefined ? undefined : jobAt.get(seq)
      if (parent === undefined || left === undefined) continue
      const isFirstDeath = alarms && alarm.run(seq).changes === 1
      if (wakesParent({ state: stateName(parent.state), waiting: left }, isFirstDeath)) waiting.wake(seq, now)
    }
  }

  /** Takes the end of a job back that is replayed. */
  function replayed(stored: string | null, child: string): void {
    if (stored === null) return
    for (const [seq] of parentsOf(stored)) {
      const parent = jobAt.get(seq)
      const link = endOf.get(seq, child)
      if (parent === undefined || link === undefined || link.state === null) continue
      const end = stateName(link.state) as FinalState
      const verdict = onReplay(
        { state: stateName(parent.state), waiting: 0, failure: parse<Failure>(parent.failure) },
        end,
      )
      if (verdict === 'nothing') continue
      reopen.run(seq, child)
      moreWaiting.run(standsInTheWay(end, link.on_failure) ? 1 : 0, seq)
      if (verdict === 'revives') revive(parent)
    }
  }

  /** Dead only because of its children, it waits for them again; and so do those that died because of it. */
  function revive(parent: JobAt): void {
    replayed(parent.family, parent.id)
    if (parent.cause !== null) forgetDeath(parent.cause)
    reviveOne.run(parent.seq)
    tally.move(parent.kind, 'dead', 'blocked', 1)
  }

  /**
   * Whether a job that comes back must wait for its children first; what failed before is no obstacle any more. Nobody
   * may come to seal it, so it is: it makes do with those that it has.
   */
  function startOver(seq: number): 'waits' | 'runs' {
    return (startOverOne.get(seq) ?? 0) > 0 ? 'waits' : 'runs'
  }

  /** Undefined for a job that was not open. */
  function seal(seq: number, state: JobState): ReturnType<typeof afterSeal> | undefined {
    const sealed = sealOne.get(seq)
    return sealed && afterSeal({ state, waiting: sealed.waiting }, sealed.alarmed === 1)
  }

  function at(seq: number): Family | undefined {
    const row = jobAt.get(seq)
    return row && of(seq, row.id, row.family)
  }

  /** Whether it has children that have not ended, or may get more. */
  function isWaiting(seq: number): boolean {
    return waits.get(seq) !== undefined
  }

  function of(seq: number, id: string, stored: string | null): Family | undefined {
    if (stored === null) return undefined
    const { flow, node, parents } = parse<StoredFamily>(stored) ?? nobody(id)
    const counts = family.get(seq) ?? childless
    return {
      flow,
      node: node ?? undefined,
      parents: parents.map(([, parent]) => parent),
      children: counts.children,
      waiting: counts.waiting,
      failed: counts.failed,
      open: counts.open === 1,
    }
  }
}

interface JobAt {
  readonly seq: number
  readonly id: string
  readonly kind: number
  readonly state: number
  readonly family: string | null
  readonly failure: string | null
  readonly cause: string | null
}

interface Counts {
  readonly children: number
  readonly waiting: number
  readonly failed: number
  readonly open: number
}

const childless: Counts = { children: 0, waiting: 0, failed: 0, open: 0 }

function nobody(id: string): StoredFamily {
  return { flow: id, node: null, parents: [] }
}

function mayJoin(row: ParentRow | undefined, isBuilt: boolean): boolean {
  return takesChildren(row && { state: stateName(row.state), waiting: row.waiting }, isBuilt)
}

function textFor({ flow, node, parents: links }: NewFamily, parents: readonly ParentRow[]): string {
  const stored: StoredFamily = {
    flow,
    node: node ?? null,
    parents: parents.map(({ seq }, i) => [seq, links[i]?.id ?? '']),
  }
  return JSON.stringify(stored)
}

export function parentsOf(stored: string | null): StoredFamily['parents'] {
  return parse<StoredFamily>(stored)?.parents ?? []
}

/** What the ends of several children mean for their parents: one write for each of these. */
class Ends {
  readonly byParent = new Map<number, { count: number; failed: number; alarms: boolean }>()

  add(parent: number, end: FinalState, policy: FailurePolicy, wakes: boolean): void {
    const sum = this.byParent.get(parent) ?? { count: 0, failed: 0, alarms: false }
    this.byParent.set(parent, sum)
    sum.count++
    if (standsInTheWay(end, policy)) sum.failed++
    if (wakes && end === 'dead') sum.alarms = true
  }
}
