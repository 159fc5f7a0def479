import { shortFailure } from '../../core/failure.js'
import { type FailurePolicy, standsInTheWay, wakesParent } from '../../core/family.js'
import type { Failure, FinalState } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { Fans } from './fans.js'
import { type JobAt, type Kin, parentsOf } from './kin.js'
import { type Positions, prepareAt } from './positions.js'
import { family as sql } from './sql.generated.js'
import { stateName, stateNumber, type Tables } from './tables.js'
import type { Waiting } from './waiting.js'

/** How a child ended. */
export interface ChildEnd {
  readonly id: string
  readonly end: FinalState
  readonly result: string | undefined
  readonly failure: Failure | undefined
}

/** What the ends of jobs mean for those that wait for them. */
export function makeEnds({ db }: Tables, waiting: Waiting, fans: Fans) {
  const childrenOf = prepareAt<Kin & { seq: number; id: string }>(db, sql.childrenOf)
  const endSilently = prepareAt<{ parent: number; fan: string | null }>(db, sql.endSilently)
  const end = db.prepare<unknown[], EndedLink>(sql.end)
  const lessWaiting = db.prepare<[number, number, number, number], number>(sql.lessWaiting).pluck()
  const alarm = db.prepare(sql.alarm)
  const jobAt = db.prepare<[number], JobAt>(sql.job)

  return { together, silently, ended, endedAt }

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
    for (const [seq, { awaited, fanned, over, failed, alarms }] of ends.byParent) {
      const left = lessWaiting.get(awaited, fanned, failed, seq)
      const parent = left === undefined ? undefined : jobAt.get(seq)
      if (parent === undefined || left === undefined) continue
      const isFirstDeath = alarms && alarm.run(seq).changes === 1
      const isFanOver = [...over].some((fan) => fans.isOver(seq, fan))
      const state = stateName(parent.state)
      if (wakesParent({ state, waiting: left }, { isFirstDeath, isAwaited: awaited > 0, isFanOver }))
        waiting.wake(seq, now)
    }
  }
}

/** What of a link matters when its child ends. */
interface EndedLink {
  readonly on_failure: FailurePolicy
  readonly wakes: number
  readonly fan: string | null
}

interface Sum {
  awaited: number
  fanned: number
  /** Fans that may be over. */
  readonly over: Set<string>
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
      sum.over.add(fan)
    }
    if (standsInTheWay(end, on_failure)) sum.failed++
    if (wakes === 1 && end === 'dead') sum.alarms = true
  }

  #of(parent: number): Sum {
    const known = this.byParent.get(parent)
    if (known !== undefined) return known
    const sum = { awaited: 0, fanned: 0, over: new Set<string>(), failed: 0, alarms: false }
    this.byParent.set(parent, sum)
    return sum
  }
}
