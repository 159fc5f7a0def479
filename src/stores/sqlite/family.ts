import { shortFailure } from '../../core/failure.js'
import {
  afterSeal,
  type FailurePolicy,
  type Family,
  isGiven,
  isPlainChild,
  makesWay,
  type NewFamily,
  onReplay,
  type ParentLink,
  standsInTheWay,
  takesChildren,
  waitsAgain,
  waitsInstead,
  wakesParent,
} from '../../core/family.js'
import type { Failure, FinalState, JobState, NewJob } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import { hasGuard, makeJobGuards } from './guard.js'
import { parse } from './parse.js'
import type { Pending } from './pending.js'
import { type Positions, prepareAt } from './positions.js'
import { family as sql } from './sql.generated.js'
import { stateName, stateNumber, type Tables } from './tables.js'
import type { Waiting } from './waiting.js'

/** What a job's row says of its family. Most children have one parent and nothing else to tell: no text then. */
export interface Kin {
  readonly family: string | null
  readonly parent: number | null
}

interface StoredFamily {
  readonly flow: string
  readonly node: string | null
  /** Positions; of one alone, the row says it. */
  readonly parents: readonly number[]
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
export function makeFamilies(
  tables: Tables,
  pending: Pending,
  waiting: Waiting,
  forgetDeath: (cause: string) => void,
) {
  const { db, tally } = tables
  const parentById = db.prepare<[string], ParentRow>(sql.parent)
  const isLinked = db.prepare<[number, string]>(sql.isLinked)
  const link = db.prepare(sql.link)
  const addParent = db.prepare(sql.addParent)
  const addChildren = db.prepare(sql.addChildren)
  const becomeParent = db.prepare(sql.becomeParent)
  const childrenOf = prepareAt<Kin & { seq: number; id: string }>(db, sql.childrenOf)
  const endSilently = prepareAt<{ parent: number; fan: string | null }>(db, sql.endSilently)
  const end = db.prepare<unknown[], EndedLink>(sql.end)
  const lessWaiting = db.prepare<[number, number, number, number], number>(sql.lessWaiting).pluck()
  const alarm = db.prepare(sql.alarm)
  const jobAt = db.prepare<[number], JobAt>(sql.job)
  const endOf = db.prepare<[number, string], LinkEnd>(sql.endOf)
  const reopen = db.prepare(sql.reopen)
  const moreWaiting = db.prepare(sql.moreWaiting)
  const reviveOne = db.prepare(sql.revive)
  const guards = makeJobGuards(tables)
  const startOverOne = db.prepare<[number], { waiting: number; open: number }>(sql.startOver)
  const waitOn = db.prepare(sql.waitOn)
  const isLeased = db.prepare<[number]>(sql.isLeased)
  const sealOne = db.prepare<[number], { waiting: number; alarmed: number }>(sql.seal)
  const family = db.prepare<[number], Counts>(sql.family)
  const parentOf = db.prepare<[number, string], { id: string; family: string | null }>(sql.parentOf)
  const waits = db.prepare<[number]>(sql.isWaiting)
  const hasOpen = db.prepare<[number]>(sql.hasOpenChildren)
  const lessFailed = db.prepare(sql.lessFailed)
  const forgetLinks = db.prepare(sql.forgetFans)
  const withoutFans = db.prepare(sql.withoutFans)
  const isFanOpen = db.prepare<[number, string]>(sql.isFanOpen)
  const closeFan = db.prepare<[string, number]>(sql.closeFan)
  const reopenFan = db.prepare<[string, number]>(sql.reopenFan)
  const isFanClosed = db.prepare<[number, string]>(sql.isFanClosed)

  return {
    joining,
    together,
    silently,
    ended,
    endedAt,
    replayed,
    replayedMeanwhile,
    startOver,
    forgetFans,
    closeFans,
    seal,
    of,
    at,
    hasOpenChildren,
  }

  /** For the jobs of one insert; `by` is the job whose run adds them. */
  function joining(by: string | undefined) {
    const found = new Map<string, ParentRow | undefined>()
    const added = new Map<ParentRow, { waiting: number; fanned: number }>()
    const building = new Map<string, number>()
    const kins = new Map<NewJob, Kin>()

    return { join, knows, kin, built, end }

    /** Makes a new job a child of its parents: of all, or of none. */
    function join(job: NewJob): 'joined' | 'known' | 'orphaned' {
      const own = job.family as NewFamily
      const parents = own.parents.map(({ id }) => find(id))
      const mayCome = own.parents.every(({ id }, i) => mayJoin(parents[i], id === by || building.has(id)))
      // To an only parent it is linked at once: that tells whether it was before.
      const isTold = mayCome && parents.length === 1
      if (!isTold && parents.some((parent) => isChild(parent, job.id))) return 'known'
      if (!mayCome) return 'orphaned'
      for (const [i, parent] of own.parents.entries())
        if (!addLink(parents[i] as ParentRow, parent, job)) return 'known'
      kins.set(job, kinOf(own, positionsOf(parents as ParentRow[])))
      return 'joined'
    }

    /** False when it was there before. */
    function addLink(row: ParentRow, { onFailure, wakes, undo, fan }: ParentLink, job: NewJob): boolean {
      const node = job.family?.node ?? null
      const values = [row.seq, job.id, job.name, node, onFailure, wakes ? 1 : 0, undo ?? null, fan ?? null]
      if (link.run(...values).changes === 0) return false
      const count = added.get(row) ?? { waiting: 0, fanned: 0 }
      if (fan === undefined) count.waiting++
      else count.fanned++
      added.set(row, count)
      return true
    }

    /** Whether one of its parents has a child of that id. */
    function knows({ id: child }: NewJob, { parents }: NewFamily): boolean {
      return parents.map(({ id }) => find(id)).some((row) => isChild(row, child))
    }

    function find(id: string): ParentRow | undefined {
      if (!found.has(id)) found.set(id, parentById.get(id))
      return found.get(id)
    }

    /** For the job's own row. */
    function kin(job: NewJob): Kin {
      if (job.family === undefined) return nobody
      return kins.get(job) ?? kinOf(job.family, [])
    }

    /** A job that waits for children was added. */
    function built(job: NewJob, seq: number): void {
      found.delete(job.id)
      const open = job.family?.waits === 'open' ? 1 : 0
      addParent.run(seq, open, open)
      building.set(job.id, seq)
    }

    function end(now: number): void {
      for (const [{ seq, known }, { waiting, fanned }] of added) {
        addChildren.run(seq, waiting + fanned, waiting, fanned)
        if (known === 0) becomeParent.run(JSON.stringify(alone(idOf(seq))), seq)
      }
      // One that got no child after all need not wait.
      for (const seq of building.values()) if (!isWaiting(seq)) waiting.wake(seq, now)
    }
  }

  function isChild(parent: ParentRow | undefined, child: string): boolean {
    return parent !== undefined && isLinked.get(parent.seq, child) !== undefined
  }

  function idOf(seq: number): string {
    return (jobAt.get(seq) as JobAt).id
  }

  /** Tells the parents of jobs that completed under one claim; `endOf` says how each ended. */
  function together(positions: Positions, endOf: (seq: number, id: string) => ChildEnd, now: number): void {
    const ends = new Ends()
    for (const row of childrenOf.all([], positions)) tell(row, endOf(row.seq, row.id), ends, now)
    release(ends, now)
  }

  /** The same for jobs with one parent each that gave nothing. */
  function silently(positions: Positions, now: number): void {
    const ends = new Ends()
    for (const { parent, fan } of endSilently.all([now], positions))
      ends.add(parent, 'completed', { on_failure: 'continue', wakes: 0, fan })
    release(ends, now)
  }

  /** The same for one job, by what its row says of its family. */
  function ended(kin: Kin, child: ChildEnd, now: number): void {
    const ends = new Ends()
    tell(kin, child, ends, now)
    release(ends, now)
  }

  function endedAt(
    seq: number,
    end: FinalState,
    { result, failure }: Pick<Outcome, 'result' | 'failure'>,
    now: number,
  ): void {
    const row = jobAt.get(seq)
    if (row !== undefined) ended(row, { id: row.id, end, result, failure }, now)
  }

  function tell(kin: Kin, child: ChildEnd, ends: Ends, now: number): void {
    const failure = child.failure === undefined ? null : JSON.stringify(shortFailure(child.failure))
    for (const seq of parentsOf(kin)) {
      const ended = end.get(stateNumber[child.end], now, child.result ?? null, failure, seq, child.id)
      if (ended !== undefined) ends.add(seq, child.end, ended)
    }
  }

  /** Wakes the parents that need not wait any longer. */
  function release(ends: Ends, now: number): void {
    for (const [seq, { awaited, fanned, fans, failed, alarms }] of ends.byParent) {
      const left = lessWaiting.get(awaited, fanned, failed, seq)
      const parent = left === undefined ? undefined : jobAt.get(seq)
      if (parent === undefined || left === undefined) continue
      const isFirstDeath = alarms && alarm.run(seq).changes === 1
      const isFanOver = [...fans].some((fan) => isFanOpen.get(seq, fan) === undefined)
      const state = stateName(parent.state)
      if (wakesParent({ state, waiting: left }, { isFirstDeath, isAwaited: awaited > 0, isFanOver }))
        waiting.wake(seq, now)
    }
  }

  /** Takes the end of a job back that is replayed; and so on, for those that were dead only because of it. */
  function replayed(first: Kin & { readonly id: string }): void {
    const jobs = [first]
    for (const job of jobs) {
      for (const seq of parentsOf(job)) {
        const parent = jobAt.get(seq)
        const link = endOf.get(seq, job.id)
        if (parent === undefined || link === undefined || link.state === null) continue
        const end = stateName(link.state) as FinalState
        const { fan } = link
        if (fan !== null && isGiven(end, isFanClosed.get(seq, fan) !== undefined)) continue
        const state = stateOfParent(parent)
        const { open, alarmed } = family.get(seq) ?? childless
        const failure = parse<Failure>(parent.failure)
        const hasBusiness = open === 1 || alarmed === 1 || fan !== null
        const verdict = onReplay({ state, failure, hasBusiness })
        if (verdict === 'nothing') continue
        reopen.run(seq, job.id)
        const stood = standsInTheWay(end, link.on_failure)
        moreWaiting.run(fan === null ? 1 : 0, fan === null ? 0 : 1, stood && makesWay(failure) ? 1 : 0, seq)
        if (verdict === 'revives') {
          revive(parent)
          jobs.push(parent)
        }
        if (verdict === 'returns') goBack(parent, state)
      }
    }
  }

  function stateOfParent({ seq, state }: JobAt): JobState {
    return isLeased.get(seq) === undefined ? stateName(state) : 'running'
  }

  function revive(parent: JobAt): void {
    if (parent.cause !== null) forgetDeath(parent.cause)
    reviveOne.run(parent.seq)
    if (hasGuard(tables.kind(parent.kind))) guards.reopen(parent.seq, parent.id, tables.clock.now())
    tally.move(parent.kind, 'dead', 'blocked', 1)
  }

  /** It was about to run and waits again. */
  function goBack({ seq, kind }: JobAt, state: JobState): void {
    if (state === 'pending') pending.leave(tables.kind(kind), seq)
    waitOn.run(seq)
    tally.move(kind, state, 'blocked', 1)
  }

  /** Whether a job that comes back must wait for its children first. */
  function startOver(seq: number): 'waits' | 'runs' {
    const counts = startOverOne.get(seq)
    const waits = counts !== undefined && waitsAgain({ waiting: counts.waiting, open: counts.open === 1 })
    return waits ? 'waits' : 'runs'
  }

  /** A run ends because of this child. What it waits for instead, if the child was replayed meanwhile. */
  function replayedMeanwhile(seq: number, child: string | undefined): Outcome | undefined {
    const fan = child === undefined ? undefined : endOf.get(seq, child)?.fan
    if (typeof fan !== 'string') return isWaiting(seq) ? waitsInstead([]) : undefined
    reopenFan.run(fan, seq)
    return isFanOpen.get(seq, fan) === undefined ? undefined : waitsInstead([fan])
  }

  /** Children of its steps are forgotten with these. */
  function forgetFans(seq: number): void {
    lessFailed.run(seq)
    const { changes } = forgetLinks.run(seq)
    if (changes > 0) withoutFans.run(changes, seq)
  }

  /** What of these fans cannot be closed, because a child of it was replayed and has not ended. */
  function closeFans(seq: number, fans: readonly string[]): string[] {
    const open = fans.filter((fan) => isFanOpen.get(seq, fan) !== undefined)
    for (const fan of fans)
      if (!open.includes(fan) && isFanClosed.get(seq, fan) === undefined) closeFan.run(fan, seq)
    return open
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

  /** Whether it has to wait for children before it runs, or for more to come. */
  function isWaiting(seq: number): boolean {
    return waits.get(seq) !== undefined
  }

  /** Whether it has children that have not ended, its steps' among them, or may get more. */
  function hasOpenChildren(seq: number): boolean {
    return hasOpen.get(seq) !== undefined
  }

  function of(row: Kin & { readonly seq: number; readonly id: string }): Family | undefined {
    if (row.family === null && row.parent === null) return undefined
    const parents = parentsOf(row).flatMap((seq) => parentOf.get(seq, row.id) ?? [])
    const stored = parse<StoredFamily>(row.family) ?? parse<StoredFamily>(parents[0]?.family ?? null)
    const counts = family.get(row.seq) ?? childless
    return {
      flow: stored?.flow ?? row.id,
      node: (row.family === null ? null : stored?.node) ?? undefined,
      parents: parents.map(({ id }) => id),
      children: counts.children,
      waiting: counts.waiting + counts.fanned,
      failed: counts.failed,
      open: counts.open === 1,
    }
  }
}

interface JobAt extends Kin {
  readonly seq: number
  readonly id: string
  readonly kind: number
  readonly state: number
  readonly failure: string | null
  readonly cause: string | null
}

interface Counts {
  readonly children: number
  readonly waiting: number
  readonly fanned: number
  readonly failed: number
  readonly open: number
  readonly alarmed: number
}

const childless: Counts = { children: 0, waiting: 0, fanned: 0, failed: 0, open: 0, alarmed: 0 }

/** What of a link matters when its child ends. */
interface EndedLink {
  readonly on_failure: FailurePolicy
  readonly wakes: number
  readonly fan: string | null
}

interface LinkEnd {
  readonly state: number | null
  readonly on_failure: FailurePolicy
  readonly fan: string | null
}

const nobody: Kin = { family: null, parent: null }

function alone(id: string): StoredFamily {
  return { flow: id, node: null, parents: [] }
}

function mayJoin(row: ParentRow | undefined, isBuilt: boolean): boolean {
  return takesChildren(row && { state: stateName(row.state), waiting: row.waiting }, isBuilt)
}

function positionsOf(rows: readonly ParentRow[]): number[] {
  return rows.map(({ seq }) => seq)
}

function kinOf(own: NewFamily, parents: readonly number[]): Kin {
  const parent = parents.length === 1 ? (parents[0] as number) : null
  if (parent !== null && isPlainChild(own)) return { family: null, parent }
  const { flow, node = null } = own
  const others = parent === null ? parents : []
  return { family: JSON.stringify({ flow, node, parents: others } satisfies StoredFamily), parent }
}

/** Positions of its parents. */
export function parentsOf({ family, parent }: Kin): readonly number[] {
  if (parent !== null) return [parent]
  return family === null ? [] : (parse<StoredFamily>(family)?.parents ?? [])
}

interface Sum {
  awaited: number
  fanned: number
  readonly fans: Set<string>
  failed: number
  alarms: boolean
}

/** What the ends of several children mean for their parents: one write for each of these. */
class Ends {
  readonly byParent = new Map<number, Sum>()

  add(parent: number, end: FinalState, { on_failure, wakes, fan }: EndedLink): void {
    const sum = this.#of(parent)
    if (fan === null) {
      sum.awaited++
    } else {
      sum.fanned++
      sum.fans.add(fan)
    }
    if (standsInTheWay(end, on_failure)) sum.failed++
    if (wakes === 1 && end === 'dead') sum.alarms = true
  }

  #of(parent: number): Sum {
    const known = this.byParent.get(parent)
    if (known !== undefined) return known
    const sum = { awaited: 0, fanned: 0, fans: new Set<string>(), failed: 0, alarms: false }
    this.byParent.set(parent, sum)
    return sum
  }
}
