/**
 * A job on its way from one shard to another, with all that is known of it. Only jobs that have to do with nobody else travel, so a
 * parcel has neither parents nor children, groups, keys nor waits.
 */
import type { JobState, LogLine } from '../../../core/job.js'
import type { StepRecord } from '../../../core/step.js'
import { type Entry, storyOf } from '../../ledger/entry.js'
import { writeSteps } from '../../ledger/steps.js'
import { type JobRow, readEntry, type StoredJob } from '../../page/job-row.js'
import { readStep } from '../../page/steps.js'
import type { PagedTables } from '../../page/tables.js'
import type { Trail } from '../page/moving.js'

export interface Parcel {
  readonly row: StoredJob
  readonly kind: { readonly queue: string; readonly name: string; readonly lane: number }
  readonly state: JobState
  readonly steps: readonly StepRecord[]
  readonly logs: readonly LogLine[]
  /** Of one that runs. */
  readonly lease: ParcelLease | undefined
  /** When it was sent, or sent again: one that is late has to be sent again, for it may have arrived long ago. */
  readonly sentAt: number
}

interface ParcelLease {
  readonly worker: string
  readonly expiresAt: number
  readonly at: number
  /** Under which it ran here, and under which it runs there. */
  readonly token: string
  readonly claim: string
}

/** Takes a job out of its shard. `claim`: a new one, for a job that runs. */
export function pack(tables: PagedTables, entry: Entry, claim: string): Parcel {
  const { lease, state, kind, seq, story } = entry
  const trail = story !== undefined ? (tables.page.row<Trail>('trail', String(seq)) as Trail) : noTrail
  const parcel: Parcel = {
    row: tables.jobs.stored(entry),
    kind: { queue: kind.queue.name, name: kind.name, lane: kind.lane },
    state,
    steps: trail.steps.map(readStep),
    logs: trail.logs.map((line) => JSON.parse(line) as LogLine),
    lease: lease && {
      worker: lease.worker.id,
      expiresAt: lease.worker.expiresAt,
      at: lease.at,
      token: tables.tokenOf(entry, lease),
      claim,
    },
    sentAt: tables.page.now,
  }
  tables.leave(entry)
  tables.jobs.delete(entry.job.id)
  return parcel
}

const noTrail: Trail = { logs: [], steps: [] }

/** Puts it into its new shard, as it was. */
export function unpack(tables: PagedTables, { row, kind: name, state, steps, logs, lease }: Parcel): Entry {
  const kind = tables.kinds.of({ ...name } as never)
  const entry = readEntry({ ...elsewhere, ...row, seq: tables.nextSeq() }, kind)
  tables.jobs.set(row.id, entry)
  if (steps.length > 0) writeSteps(tables, entry, steps)
  if (logs.length > 0) tables.addLogs(entry, logs)
  if (lease !== undefined) runAgain(tables, entry, lease)
  else if (state !== 'running') tables.enter(entry, state, entry.rank)
  const { failure } = entry.story ?? {}
  if (state === 'dead' && failure !== undefined)
    tables.causes.add(entry, failure, storyOf(entry).finishedAt ?? 0)
  return entry
}

function runAgain(
  tables: PagedTables,
  entry: Entry,
  { worker: id, expiresAt, at, claim }: ParcelLease,
): void {
  const known = tables.workers.get(id)
  // One that was idle here is known for longer than it may hold jobs.
  const isShorter = known !== undefined && expiresAt > tables.page.now && expiresAt < known.expiresAt
  const worker = known === undefined || isShorter ? tables.workers.renew(id, expiresAt) : known
  entry.kind.states.running++
  entry.state = 'running'
  worker.newLease(claim, at).add(entry)
}

/** What a row does not say. */
const elsewhere: Omit<JobRow, keyof StoredJob> = {
  place: null,
  turn: null,
  run_first: null,
  run_last: null,
  started_at: null,
  expires_at: null,
  result: null,
  parent: null,
  waiting: null,
  doomed: null,
}
