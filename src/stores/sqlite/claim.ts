import type { ClaimedJob } from '../../core/job.js'
import { type Pick as LanePick, takeByPicks } from '../../core/lanes.js'
import type { ClaimRequest } from '../../core/store.js'
import {
  couldStart,
  knownLines,
  laneOpensAt,
  type TrafficLane,
  takeFromLane,
} from '../../core/traffic/lane.js'
import { leaseToken } from '../ledger/token.js'
import type { Families } from './family.js'
import { hasGuard, makeJobGuards } from './guard.js'
import { parse } from './parse.js'
import { claim as sql } from './sql.generated.js'
import { type QueueRow, type Tables, traits, unwinds } from './tables.js'
import type { Places, Traffic, TrafficJob, TrafficLine } from './traffic.js'

export interface Claim {
  /** `more`: it has not looked at all that may start, so that another claim is worth it at once. */
  take(
    worker: string,
    request: ClaimRequest,
    now: number,
  ): { readonly jobs: ClaimedJob[]; readonly more: boolean }
  /** Whether a claim would give anything; reads only. */
  couldFind(worker: string, request: ClaimRequest, now: number): boolean
  /**
   * When a limit that holds up jobs of the asked queues opens by itself; reads only. At the time of the claim: what
   * has opened since then would go unseen.
   */
  opensAt(request: ClaimRequest, now: number): number | undefined
}

/** The columns of a job that a claim needs. */
export type JobRowHead = [
  seq: number,
  id: string,
  kind: number,
  input: string,
  attempt: number,
  crashes: number,
  createdAt: number,
  readyAt: number | null,
  retryDelay: number,
  overrides: string | null,
  tags: string | null,
  metadata: string | null,
  stepped: number | null,
  cancelReason: string | null,
]

/** The same, of a job that is read where it may have a group or a key. */
type Row = [...JobRowHead, group: string | null, key: string | null, gated: number | null]

interface Asked {
  readonly worker: number
  readonly token: string
  readonly now: number
  readonly turn: number
  readonly claimed: ClaimedJob[]
  /** Positions of those among them that were not leased with their whole line. */
  readonly started: number[]
  more: boolean
}

interface StoredLane extends TrafficLane<TrafficLine> {
  readonly queueId: number
  readonly num: number
}

/** Moves the heads of the asked lanes from ready to leased, inside the current transaction. */
export function makeClaim(tables: Tables, traffic: Traffic, places: Places, families: Families): Claim {
  const { db, tally } = tables
  const take = db.prepare<[number, number, number], JobRowHead>(sql.take).raw()
  const lease = db.prepare(sql.lease)
  const leaseEach = db.prepare(sql.leaseEach)
  const leave = db.prepare(sql.leave)
  const head = db.prepare<[number, number], number>(sql.head).pluck()
  const again = db.prepare<[number, string], [...Row, number]>(sql.again).raw()
  const guards = makeJobGuards(tables)
  const renewWorker = makeRenew(tables)

  return { take: takeAll, couldFind, opensAt }

  function couldFind(worker: string, { picks, token, known }: ClaimRequest, now: number): boolean {
    const num = tables.workerNumber(worker)
    if (num !== undefined && again.get(num, token) !== undefined) return true
    if (hasLimits(picks) && (places.nextDue() ?? Number.POSITIVE_INFINITY) <= now) return true
    return picks.some(({ queue, lane }) => {
      const row = tables.queueRow(queue)
      if (row === undefined || row.paused === 1) return false
      return row.traffic === 1
        ? couldStart(traffic, laneOf(queue, row, lane, known), now)
        : hasPlain(row, lane)
    })
  }

  function opensAt({ picks, known }: ClaimRequest, now: number): number | undefined {
    if (!hasLimits(picks)) return undefined
    let at = places.nextDue() ?? Number.POSITIVE_INFINITY
    for (const { queue, lane } of picks) {
      const row = tables.queueRow(queue)
      if (row === undefined || row.paused === 1 || row.traffic === 0) continue
      at = Math.min(at, laneOpensAt(traffic, laneOf(queue, row, lane, known), now))
    }
    return at === Number.POSITIVE_INFINITY ? undefined : at
  }

  /** Queues that have none pay for none. */
  function hasLimits(picks: readonly LanePick[]): boolean {
    return picks.some(({ queue }) => tables.queueRow(queue)?.traffic === 1)
  }

  function hasPlain({ id }: QueueRow, lane: number): boolean {
    return head.get(id, lane) !== undefined
  }

  function laneOf(queue: string, row: QueueRow, lane: number, known: ClaimRequest['known']): StoredLane {
    return {
      queue,
      queueId: row.id,
      num: lane,
      get hasPlain() {
        return hasPlain(row, lane)
      },
      get lines() {
        return knownLines(places.lines(row.id, lane), known)
      },
    }
  }

  function takeAll(worker: string, request: ClaimRequest, now: number): ReturnType<Claim['take']> {
    const workerNum = renewWorker(worker, now + request.lease)
    const before = again.all(workerNum, request.token)
    if (before.length > 0)
      return { jobs: before.map((row) => toClaimedAgain(row, request.token)), more: false }
    const asked: Asked = {
      worker: workerNum,
      token: request.token,
      now,
      turn: request.turn,
      claimed: [],
      started: [],
      more: false,
    }
    if (hasLimits(request.picks)) traffic.unpark(now)
    takeByPicks(request.room, request.picks, (queue, lane, count) => {
      const row = tables.queueRow(queue)
      if (row === undefined || row.paused === 1) return 0
      return row.traffic === 1
        ? takeWithLimits(asked, laneOf(queue, row, lane, request.known), count)
        : takeHeads(asked, row.id, lane, count)
    })
    if (asked.started.length > 0) leaseEach.run(workerNum, request.token, now, `[${asked.started.join(',')}]`)
    return { jobs: asked.claimed, more: asked.more }
  }

  function takeHeads(
    { worker, token, now, claimed }: Asked,
    queueId: number,
    lane: number,
    count: number,
  ): number {
    const rows = take.all(queueId, lane, count)
    const last = rows.at(-1)
    if (last === undefined) return 0
    lease.run(worker, token, now, queueId, lane, rows.length)
    leave.run(queueId, lane, last[0])
    for (const row of rows) {
      tally.move(row[2], 'pending', 'running', 1)
      claimed.push(toClaimed(row, token, now))
    }
    return rows.length
  }

  function takeWithLimits(asked: Asked, lane: StoredLane, count: number): number {
    const { turn, now, token } = asked
    const started = places.startedBy(token)
    const { found, more } = takeFromLane(traffic, lane, count, { turn, now, plain, start })
    if (more) asked.more = true
    return found

    function plain(most: number): TrafficJob[] {
      const rows = take.all(lane.queueId, lane.num, most)
      const last = rows.at(-1)
      if (last !== undefined) leave.run(lane.queueId, lane.num, last[0])
      return rows.map((row) => ({
        job: places.subjectOf(tables.kind(row[2]), null, null, null),
        rank: 0,
        seq: row[0],
        row,
      }))
    }

    function start({ job, seq, row }: TrafficJob, suspect: boolean): void {
      started.set(seq, job)
      asked.started.push(seq)
      const { group, key } = job.traffic ?? noTraffic
      asked.claimed.push(toClaimed(row as JobRowHead, token, now, { group, key, suspect }))
      tally.move((row as JobRowHead)[2], 'pending', 'running', 1)
    }
  }

  function toClaimedAgain(row: [...Row, number], token: string): ClaimedJob {
    const suspect = traffic.isSuspect(tables.kind(row[2]).name)
    const own = { group: row[14] ?? undefined, key: row[15] ?? undefined, suspect }
    return toClaimed(row.slice(0, 14) as JobRowHead, token, row[17], own)
  }

  function toClaimed(row: JobRowHead, token: string, now: number, own: Own = noOwn): ClaimedJob {
    const kind = tables.kind(row[2])
    return {
      id: row[1],
      token: leaseToken(row[1], row[0], kind.id, token),
      name: kind.name,
      queue: kind.queue,
      lane: kind.lane,
      input: row[3],
      attempt: row[4] + 1,
      crashes: row[5],
      maxAttempts: kind.maxAttempts,
      maxCrashes: kind.maxCrashes,
      createdAt: row[6],
      readyAt: row[7] ?? row[6],
      startedAt: now,
      retryDelay: row[8],
      overrides: row[9] ?? undefined,
      tags: parse<string[]>(row[10]),
      metadata: row[11] ?? undefined,
      group: own.group,
      key: own.key,
      suspect: own.suspect,
      family: (kind.traits & traits.parent) === 0 ? undefined : families.at(row[0]),
      guard: hasGuard(kind) ? guards.claim(row[0], row[1], now) : undefined,
      stepped: row[12] === 1,
      cancelReason: unwinds(kind) ? (row[13] ?? undefined) : undefined,
    }
  }
}

type Own = Pick<ClaimedJob, 'group' | 'key' | 'suspect'>

const noOwn: Own = { group: undefined, key: undefined, suspect: false }
const noTraffic = { group: undefined, key: undefined }

/** Renews a worker's lease and returns its number; a worker that was given up starts anew. */
export function makeRenew(tables: Tables): (worker: string, expiresAt: number) => number {
  const renew = tables.db.prepare(sql.renew)
  const register = tables.db.prepare<[string, number], number>(sql.register).pluck()
  return (worker, expiresAt) => {
    const known = tables.workerNumber(worker)
    if (known !== undefined && renew.run(expiresAt, known, worker).changes === 1) return known
    const num = register.get(worker, expiresAt) as number
    tables.rememberWorker(worker, num)
    return num
  }
}
