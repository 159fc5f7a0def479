import { mostMoved } from '../../core/flow/control.js'
import { takeByTurns } from '../../core/flow/turns.js'
import type { ClaimedJob } from '../../core/job.js'
import { type Pick as LanePick, takeByPicks } from '../../core/lanes.js'
import type { ClaimRequest } from '../../core/store.js'
import type { Flow, FlowLine, Places } from './flow.js'
import { parse } from './parse.js'
import { claim as sql } from './sql.generated.js'
import type { QueueRow, Tables } from './tables.js'
import { leaseToken } from './token.js'

export interface Claim {
  /** `more`: it has not looked at all that may start, so that another claim is worth it at once. */
  take(worker: string, request: ClaimRequest): { readonly jobs: ClaimedJob[]; readonly more: boolean }
  /** Whether a claim would give anything; reads only. */
  couldFind(worker: string, request: ClaimRequest): boolean
  /** When a limit that holds up jobs of the asked queues opens by itself; reads only. */
  opensAt(request: ClaimRequest): number | undefined
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
  /** Jobs went to a line that may not have been looked at. */
  moved: boolean
  more: boolean
}

/** Moves the heads of the asked lanes from ready to leased, inside the current transaction. */
export function makeClaim(tables: Tables, flow: Flow, places: Places): Claim {
  const { db, tally, clock } = tables
  const take = db.prepare<[number, number, number], JobRowHead>(sql.take).raw()
  const lease = db.prepare(sql.lease)
  const leaseEach = db.prepare(sql.leaseEach)
  const leave = db.prepare(sql.leave)
  const head = db.prepare<[number, number], number>(sql.head).pluck()
  const again = db.prepare<[number, string], [...Row, number]>(sql.again).raw()
  const renewWorker = makeRenew(tables)

  return { take: takeAll, couldFind, opensAt }

  function couldFind(worker: string, { picks, token }: ClaimRequest): boolean {
    const num = tables.workerNumber(worker)
    if (num !== undefined && again.get(num, token) !== undefined) return true
    const now = clock.now()
    if (hasLimits(picks) && (places.nextDue() ?? Number.POSITIVE_INFINITY) <= now) return true
    return picks.some(({ queue, lane }) => {
      const row = tables.queueRow(queue)
      if (row === undefined || row.paused === 1) return false
      if (row.flow === 0) return head.get(row.id, lane) !== undefined
      return waitingNames(row, lane).some((name) => flow.room(queue, name, now) > 0)
    })
  }

  function opensAt({ picks }: ClaimRequest): number | undefined {
    if (!hasLimits(picks)) return undefined
    const now = clock.now()
    let at = places.nextDue() ?? Number.POSITIVE_INFINITY
    for (const { queue, lane } of picks) {
      const row = tables.queueRow(queue)
      if (row === undefined || row.paused === 1 || row.flow === 0) continue
      for (const name of waitingNames(row, lane)) {
        if (flow.room(queue, name, now) === 0) at = Math.min(at, flow.opensAt(queue, name, now))
      }
    }
    return at === Number.POSITIVE_INFINITY ? undefined : at
  }

  /** Queues that have none pay for none. */
  function hasLimits(picks: readonly LanePick[]): boolean {
    return picks.some(({ queue }) => tables.queueRow(queue)?.flow === 1)
  }

  /** Of the lines of a lane that have jobs. */
  function waitingNames({ id }: QueueRow, lane: number): string[] {
    const names = places
      .lines(id, lane)
      .filter((line) => line.jobs > 0)
      .map((line) => line.name)
    return head.get(id, lane) === undefined ? names : ['', ...names]
  }

  function takeAll(worker: string, request: ClaimRequest): ReturnType<Claim['take']> {
    const now = clock.now()
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
      moved: false,
      more: false,
    }
    if (hasLimits(request.picks)) flow.unpark(now)
    takeByPicks(request.room, request.picks, (queue, lane, count) => {
      const row = tables.queueRow(queue)
      if (row === undefined || row.paused === 1) return 0
      return row.flow === 1
        ? takeWithLimits(asked, queue, row.id, lane, count)
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

  /** The plain line and those with limits or groups take turns; closed ones do not count. */
  function takeWithLimits(asked: Asked, queue: string, queueId: number, lane: number, count: number): number {
    const found = takeOpen(asked, queue, queueId, lane, count)
    if (found === count || !asked.moved) return found
    asked.moved = false
    return found + takeOpen(asked, queue, queueId, lane, count - found)
  }

  function takeOpen(asked: Asked, queue: string, queueId: number, lane: number, count: number): number {
    const open: (FlowLine | undefined)[] = []
    if (head.get(queueId, lane) !== undefined && flow.room(queue, '', asked.now) > 0) open.push(undefined)
    for (const line of places.lines(queueId, lane)) {
      if (line.jobs > 0 && flow.room(queue, line.name, asked.now) > 0) open.push(line)
    }
    return takeByTurns(open, count, asked.turn, (line, share) =>
      line === undefined
        ? takeFromPlain(asked, queue, queueId, lane, share)
        : takeFromLine(asked, line, share),
    )
  }

  function takeFromLine(asked: Asked, line: FlowLine, count: number): number {
    const { now } = asked
    const most = Math.min(count, flow.room(line.queue, line.name, now))
    const { taken, moved } = flow.take(line, most, now)
    if (moved) asked.moved = true
    if (taken.length < most && line.jobs > 0) asked.more = true
    const suspect = flow.isSuspect(line.name)
    for (const job of taken) {
      places.remember(job.seq, job.job)
      const { group, key } = job.job.flow ?? noFlow
      startOne(
        asked,
        toClaimed(job.row as JobRowHead, asked.token, now, { group, key, suspect }),
        job.row as JobRowHead,
      )
    }
    return taken.length
  }

  /** Jobs whose definition got limits while they waited go to a line of their own. */
  function takeFromPlain(asked: Asked, queue: string, queueId: number, lane: number, count: number): number {
    const { now, token } = asked
    let found = 0
    for (let looked = 0; ; ) {
      const most = Math.min(count - found, flow.room(queue, '', now))
      if (most <= 0) break
      const rows = take.all(queueId, lane, most)
      const last = rows.at(-1)
      if (last === undefined) break
      if (looked >= mostMoved) {
        asked.more = true
        break
      }
      leave.run(queueId, lane, last[0])
      looked += rows.length
      let started = 0
      for (const row of rows) {
        if (flow.jobGate(tables.kind(row[2]).name) !== undefined) {
          flow.enter(places.job(row[0]), false, now)
          asked.moved = true
          continue
        }
        startOne(asked, toClaimed(row, token, now), row)
        started++
      }
      flow.started(queue, '', started, now)
      found += started
    }
    return found
  }

  function startOne({ claimed, started }: Asked, job: ClaimedJob, row: JobRowHead): void {
    started.push(row[0])
    tally.move(row[2], 'pending', 'running', 1)
    claimed.push(job)
  }

  function toClaimedAgain(row: [...Row, number], token: string): ClaimedJob {
    const suspect = flow.isSuspect(tables.kind(row[2]).name)
    const own = { group: row[12] ?? undefined, key: row[13] ?? undefined, suspect }
    return toClaimed(row.slice(0, 12) as JobRowHead, token, row[15], own)
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
    }
  }
}

type Own = Pick<ClaimedJob, 'group' | 'key' | 'suspect'>

const noOwn: Own = { group: undefined, key: undefined, suspect: false }
const noFlow = { group: undefined, key: undefined }

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
