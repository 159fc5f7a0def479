import { type Completion, type NewFamily, type ParentLink, takesChildren } from '../../core/family.js'
import type { NewJob } from '../../core/job.js'
import { alone, type JobAt, type Kin, kinOf, nobody } from './kin.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'
import type { Waiting } from './waiting.js'

interface ParentRow {
  readonly seq: number
  readonly state: number
  readonly waiting: number
  /** It is part of a family already. */
  readonly known: number
}

/** How new jobs come to their parents. */
export function makeJoining({ db }: Tables, waiting: Waiting) {
  const parentById = db.prepare<[string], ParentRow>(sql.parent)
  const isLinked = db.prepare<[number, string]>(sql.isLinked)
  const link = db.prepare(sql.link)
  const isUndone = db.prepare<[number, string, number]>(sql.isUndone)
  const undoOne = db.prepare(sql.undo)
  const addParent = db.prepare(sql.addParent)
  const addChildren = db.prepare(sql.addChildren)
  const becomeParent = db.prepare(sql.becomeParent)
  const jobAt = db.prepare<[number], JobAt>(sql.job)
  const waits = db.prepare<[number]>(sql.isWaiting)

  return { joining }

  /** For the jobs of one insert; `by` is the job whose run adds them. */
  function joining(by: string | undefined) {
    const found = new Map<string, ParentRow | undefined>()
    const added = new Map<ParentRow, { waiting: number; fanned: number }>()
    const building = new Map<string, number>()
    const kins = new Map<NewJob, Kin>()

    return { join, knows, undo, kin, built, end }

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

    /** Links of this completion keep that it is undone. False where one of them did so before. */
    function undo({ child, endedAt, parents }: Completion): boolean {
      const rows = parents.flatMap((id) => find(id) ?? [])
      const isFirst = !rows.some(({ seq }) => isUndone.get(seq, child, endedAt) !== undefined)
      for (const { seq } of rows) undoOne.run(seq, child, endedAt)
      return isFirst
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

  /** Whether it has to wait for children before it runs, or for more to come. */
  function isWaiting(seq: number): boolean {
    return waits.get(seq) !== undefined
  }
}

function mayJoin(row: ParentRow | undefined, isBuilt: boolean): boolean {
  return takesChildren(row && { state: stateName(row.state), waiting: row.waiting }, isBuilt)
}

function positionsOf(rows: readonly ParentRow[]): number[] {
  return rows.map(({ seq }) => seq)
}
