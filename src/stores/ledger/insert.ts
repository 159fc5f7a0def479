import type { NewJob } from '../../core/job.js'
import type { InsertResult } from '../../core/store.js'
import { admission, type Entrance } from '../../core/traffic/admit.js'
import { superseded } from '../../core/traffic/dedupe.js'
import { holdKey, takeOver } from './dedupe.js'
import { Doors } from './doors.js'
import type { Entry } from './entry.js'
import { addBlocked, type Building, endBuilding, isKnown, join, newBuilding, undo } from './joining.js'
import { cancel } from './operate.js'
import type { Tables } from './tables.js'

/** Adds jobs. A job whose id exists is left as it stands. The caller has asked for room. */
export function insert(tables: Tables, jobs: readonly NewJob[], now: number): InsertResult[] {
  const doors = new Doors(tables)
  const building = newBuilding(undefined)
  const entrance = makeEntrance(tables, doors, building, now)
  const results = admitAll(tables, entrance, jobs)
  endBuilding(tables, building, now)
  doors.close()
  return results
}

/** Adds what a handler added: its settlement is not to fail because a queue is full. `by`: the handler's job. */
export function insertFromHandler(
  tables: Tables,
  jobs: readonly NewJob[],
  by: string | undefined,
  now: number,
): void {
  const building = newBuilding(by)
  const entrance = makeEntrance(tables, undefined, building, now)
  admitAll(tables, entrance, jobs)
  endBuilding(tables, building, now)
}

function admitAll(tables: Tables, entrance: Entrance<Entry>, jobs: readonly NewJob[]): InsertResult[] {
  const admit = admission(entrance, jobs)
  const results: InsertResult[] = []
  tables.each(jobs, (job) => void results.push(admit(job)))
  return results
}

function makeEntrance(
  tables: Tables,
  doors: Doors | undefined,
  building: Building,
  now: number,
): Entrance<Entry> {
  return {
    now,
    stateOf: ({ id }) => tables.jobs.get(id)?.state,
    holder: (name, key) => tables.holders.get(name, key),
    jobOf: ({ id }) => tables.jobs.get(id),
    takeOver: (entry, job, how) => takeOver(tables, entry, job, how, now),
    supersede: (entry) => void cancel(tables, entry, { do: 'cancel', reason: superseded, retain: 0 }, now),
    hold: (job, rule) => holdKey(tables, job, rule, now),
    door: (queue) => doors?.of(queue),
    add: (job, dueAt) => add(tables, job, dueAt, now),
    join: (job) => join(tables, job, building),
    knows: (job, family) => isKnown(tables, job, family),
    addBlocked: (job) => addBlocked(tables, job, building, now),
    undo: (completion) => undo(tables, completion),
    count: (job, what) => void tables.kinds.of(job).totals[what]++,
  }
}

function add(tables: Tables, job: NewJob, dueAt: number, now: number): InsertResult {
  const entry = tables.add(job, now)
  entry.kind.totals.enqueued++
  if (dueAt > now) {
    tables.enter(entry, 'scheduled', dueAt)
    tables.signals.due(dueAt - now)
    return insertedScheduled
  }
  tables.enter(entry, 'pending', 0)
  return insertedPending
}

const insertedPending: InsertResult = { status: 'inserted', state: 'pending' }
const insertedScheduled: InsertResult = { status: 'inserted', state: 'scheduled' }
