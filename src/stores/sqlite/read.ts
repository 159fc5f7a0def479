import { bounds } from '../../core/bounds.js'
import { isMendable } from '../../core/child-failed.js'
import type { Clock } from '../../core/clock.js'
import { MillraceError } from '../../core/errors.js'
import {
  type Failure,
  type JobRecord,
  type JobState,
  type JobTrail,
  jobStates,
  type LogLine,
} from '../../core/job.js'
import { totalNames } from '../../core/lifecycle.js'
import { hasField } from '../../core/search.js'
import type {
  Cause,
  Counts,
  GatePage,
  GateQuery,
  JobFilter,
  JobPage,
  JobQuery,
  KindCounts,
} from '../../core/store.js'
import { gateRecord, isListed } from '../../core/traffic/gate.js'
import { ownerOf } from '../../core/traffic/settings.js'
import type { Families } from './family.js'
import { refOf } from './gates.js'
import { parse } from './parse.js'
import { read as sql } from './sql.generated.js'
import type { Steps } from './steps.js'
import { stateName, stateNumber, type Tables, unwinds } from './tables.js'
import type { Places } from './traffic.js'

export interface JobRow {
  readonly seq: number
  readonly id: string
  readonly kind: number
  readonly state: number
  readonly created_at: number
  readonly input: string
  readonly attempt: number
  readonly crashes: number
  readonly due_at: number | null
  readonly overrides: string | null
  readonly tags: string | null
  readonly search: string | null
  readonly metadata: string | null
  readonly started_at: number | null
  readonly finished_at: number | null
  readonly expires_at: number | null
  readonly result: string | null
  readonly failure: string | null
  readonly cause: string | null
  readonly cancel_reason: string | null
  readonly progress: string | null
  readonly grp: string | null
  readonly key: string | null
  readonly dedupe: string | null
  readonly family: string | null
  readonly parent: number | null
  readonly guard: string | null
  readonly stepped: number | null
  readonly lease_at: number | null
  readonly lease_worker: string | null
}

/** A row with its place in the order of the list that it was read from. */
interface ListedRow extends JobRow {
  readonly k1: number
  readonly k2: number
  readonly k3: number
}

export type Read = ReturnType<typeof makeRead>

/** A list looks at this many rows per call at most; a filter that matches few gets a cursor to go on with. */
const scanBudget = 5_000
const chunk = 500
/** Queues have smaller numbers. */
const firstInTurn = 2 ** 39

/** Reads see the last commit; none of them counts rows. */
export function makeRead(tables: Tables, families: Families, steps: Steps) {
  const { db } = tables
  const byId = db.prepare<[string], JobRow>(sql.byId)
  const seqById = db.prepare<[string], number>(sql.seqById).pluck()
  const attempts = db.prepare<[number], AttemptRow>(sql.attempts)
  const logs = db.prepare<[number], LogLine>(sql.logs)
  const causesStatement = db.prepare<[number], Cause>(sql.causes)
  const tally = db.prepare<[], { kind: number; what: string; n: number }>(sql.tally)
  const paused = db.prepare<[], string>(sql.paused).pluck()
  const scans = {
    pending: db.prepare<number[], ListedRow>(sql.pending),
    inTurn: db.prepare<number[], ListedRow>(sql.inTurn),
    running: db.prepare<number[], ListedRow>(sql.running),
    waiting: db.prepare<number[], ListedRow>(sql.waiting),
    blocked: db.prepare<number[], ListedRow>(sql.blocked),
    blockedAlike: db.prepare<number[], ListedRow>(sql.blockedAlike),
    finished: db.prepare<number[], ListedRow>(sql.finished),
    causeMembers: db.prepare<(string | number)[], ListedRow>(sql.causeMembers),
  }

  return { get, trail, list, counts, causes, row: (id: string) => byId.get(id), rows }

  function get(ids: readonly string[]): (JobRecord | undefined)[] {
    return ids.map((id) => {
      const row = byId.get(id)
      return row === undefined ? undefined : toRecord(row)
    })
  }

  function trail(id: string): JobTrail | undefined {
    const seq = seqById.get(id)
    if (seq === undefined) return undefined
    return {
      logs: logs.all(seq),
      steps: steps.read(seq),
      attempts: attempts.all(seq).map((row) => ({
        attempt: row.n,
        startedAt: row.started_at,
        endedAt: row.ended_at,
        worker: row.worker,
        to: stateName(row.state),
        failure: parse<Failure>(row.failure),
      })),
    }
  }

  function list(query: JobQuery): JobPage {
    const { rows: found, cursor } = rows(query)
    return { jobs: found.map(toRecord), cursor }
  }

  /** Walks the state's own index in bounded steps and keeps what the filter wants. */
  function rows({ filter, limit, cursor }: JobQuery): { rows: JobRow[]; cursor: string | undefined } {
    const found: JobRow[] = []
    let place = readCursor(filter.state, cursor)
    for (let looked = 0; looked < scanBudget; ) {
      const size = Math.min(chunk, scanBudget - looked)
      const step = scan(filter, place, size)
      for (const row of step) {
        place = [row.k1, row.k2, row.k3]
        if (matches(row, filter)) found.push(row)
        if (found.length === limit) return { rows: found, cursor: place.join(':') }
      }
      if (step.length < size) return { rows: found, cursor: undefined }
      looked += step.length
    }
    return { rows: found, cursor: place.join(':') }
  }

  function scan(filter: JobFilter, [k1, k2, k3]: Place, size: number): ListedRow[] {
    switch (filter.state) {
      case 'pending':
        return scanPending(k1, k2, k3, size)
      case 'running':
        return scans.running.all(k1, k2, size)
      case 'scheduled':
      case 'retrying':
        return scans.waiting.all(k1, k2, size)
      case 'blocked':
        return scanBlocked(k1, k2, size)
      default:
        if (filter.cause !== undefined) return scans.causeMembers.all(filter.cause, k1, k2, size)
        return scans.finished.all(stateNumber[filter.state], k1, k2, size)
    }
  }

  /** Those in plain lines first, by queue and lane; then those with limits or groups. */
  function scanPending(k1: number, k2: number, k3: number, size: number): ListedRow[] {
    const plain = k1 < firstInTurn ? scans.pending.all(k1, k2, k3, size) : []
    if (plain.length === size) return plain
    const rest = size - plain.length
    const inTurn = k1 < firstInTurn ? scans.inTurn.all(0, 0, 0, rest) : scans.inTurn.all(k1, k2, k3, rest)
    return [...plain, ...inTurn]
  }

  function scanBlocked(k1: number, k2: number, size: number): ListedRow[] {
    const alike = scans.blockedAlike.all(k1, k2, size)
    return alike.length === size ? alike : [...alike, ...scans.blocked.all(k1, size - alike.length)]
  }

  function matches(row: JobRow, filter: JobFilter): boolean {
    const kind = tables.kind(row.kind)
    const at = timeOf(row, filter.state)
    return (
      stateOf(row) === filter.state &&
      (filter.queue === undefined || kind.queue === filter.queue) &&
      (filter.name === undefined || kind.name === filter.name) &&
      (filter.cause === undefined || row.cause === filter.cause) &&
      (filter.mendable !== true || isMendable(parse<Failure>(row.failure))) &&
      (filter.after === undefined || at >= filter.after) &&
      (filter.before === undefined || at < filter.before) &&
      (filter.tag === undefined || (parse<string[]>(row.tags) ?? []).includes(filter.tag)) &&
      (filter.field === undefined ||
        hasField({ input: row.input, search: parse<string[]>(row.search) }, filter.field))
    )
  }

  function counts(): Counts {
    const kinds = new Map<string, { -readonly [K in keyof KindCounts]: KindCounts[K] }>()
    for (const { kind: id, what, n } of tally.all()) {
      const { queue, name, lane } = tables.kind(id)
      const key = `${queue}:${name}:${lane}`
      const entry = kinds.get(key) ?? {
        queue,
        name,
        lane,
        states: zeroes(jobStates),
        totals: zeroes(totalNames),
      }
      kinds.set(key, entry)
      const total = what.startsWith('total.')
      const counted = (total ? entry.totals : entry.states) as Record<string, number>
      const column = total ? what.slice('total.'.length) : what
      counted[column] = (counted[column] ?? 0) + n
    }
    return { kinds: [...kinds.values()], paused: paused.all() }
  }

  function causes(): Cause[] {
    return causesStatement.all(bounds.page)
  }

  function toRecord(row: JobRow): JobRecord {
    const kind = tables.kind(row.kind)
    const state = stateOf(row)
    const running = state === 'running'
    return {
      id: row.id,
      name: kind.name,
      queue: kind.queue,
      lane: kind.lane,
      state,
      input: row.input,
      attempt: row.attempt + (running ? 1 : 0),
      crashes: row.crashes,
      maxAttempts: kind.maxAttempts,
      maxCrashes: kind.maxCrashes,
      createdAt: row.created_at,
      dueAt: row.due_at ?? undefined,
      startedAt: (running ? row.lease_at : row.started_at) ?? undefined,
      finishedAt: row.finished_at ?? undefined,
      expiresAt: row.expires_at ?? undefined,
      worker: row.lease_worker ?? undefined,
      result: row.result ?? undefined,
      failure: parse<Failure>(row.failure),
      cancelReason: row.cancel_reason ?? undefined,
      progress: row.progress ?? undefined,
      overrides: row.overrides ?? undefined,
      tags: parse<string[]>(row.tags),
      metadata: row.metadata ?? undefined,
      group: row.grp ?? undefined,
      key: row.key ?? undefined,
      family: families.of(row),
      unwinds: unwinds(kind),
    }
  }
}

export function stateOf(row: JobRow): JobState {
  return row.lease_worker === null ? stateName(row.state) : 'running'
}

/** Gates as readers see them, by owner and name. */
export function makeReadGates(places: Places, clock: Clock): (query: GateQuery) => GatePage {
  return ({ of, owner = '', names, limit, cursor }) => {
    const now = clock.now()
    if (names !== undefined) {
      const refs = names.map((name) => refOf({ scope: of, owner, name }))
      const found = refs.map((ref) => places.findGate(ref)).filter((gate) => gate !== undefined)
      return { gates: found.filter(isListed).map((gate) => gateRecord(gate, now)), cursor: undefined }
    }
    const [fromOwner, fromName] =
      cursor === undefined ? [owner, ''] : (JSON.parse(cursor) as [string, string])
    const found = places
      .listGates(of, fromOwner, fromName, limit)
      .filter(({ ref }) => owner === '' || ownerOf(ref) === owner)
    const last = found.at(-1)
    const more = found.length === limit && last !== undefined
    return {
      gates: found.filter(isListed).map((gate) => gateRecord(gate, now)),
      cursor: more ? JSON.stringify([ownerOf(last.ref), last.ref.name]) : undefined,
    }
  }
}

interface AttemptRow {
  readonly n: number
  readonly started_at: number
  readonly ended_at: number
  readonly worker: string
  readonly state: number
  readonly failure: string | null
}

type Place = [number, number, number]

/** Before the first row of the state's order: finished jobs are listed newest first. */
function readCursor(state: JobState, cursor: string | undefined): Place {
  const end = Number.MAX_SAFE_INTEGER
  if (cursor === undefined) {
    return state === 'completed' || state === 'dead' || state === 'cancelled' ? [end, end, end] : [-1, -1, -1]
  }
  const place = cursor.split(':').map(Number)
  if (place.length !== 3 || !place.every(Number.isFinite)) {
    throw new MillraceError(
      'INVALID_OPTION',
      `cursor is ${JSON.stringify(cursor)}; expected one that a list returned`,
      {
        field: 'cursor',
        value: cursor,
      },
    )
  }
  return place as Place
}

function timeOf(row: JobRow, state: JobState): number {
  if (state === 'pending') return row.created_at
  if (state === 'running') return row.lease_at ?? 0
  return row.due_at ?? row.finished_at ?? row.created_at
}

function zeroes<K extends string>(keys: readonly K[]): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<K, number>
}
