import type { ClaimedJob } from '../../core/job.js'
import { takeByPicks } from '../../core/lanes.js'
import type { ClaimRequest } from '../../core/store.js'
import { parse } from './parse.js'
import { claim as sql } from './sql.generated.js'
import type { Tables } from './tables.js'
import { leaseToken } from './token.js'

export interface Claim {
  take(worker: string, request: ClaimRequest): ClaimedJob[]
  /** Whether a claim would give anything; reads only. */
  couldFind(worker: string, request: ClaimRequest): boolean
}

type Row = [
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

/** Moves the heads of the asked lanes from ready to leased, inside the current transaction. */
export function makeClaim(tables: Tables): Claim {
  const { db, tally, clock } = tables
  const take = db.prepare<[number, number, number], Row>(sql.take).raw()
  const lease = db.prepare(sql.lease)
  const leave = db.prepare(sql.leave)
  const head = db.prepare<[number, number], number>(sql.head).pluck()
  const again = db.prepare<[number, string], [...Row, number]>(sql.again).raw()
  const renewWorker = makeRenew(tables)

  return { take: takeHeads, couldFind }

  function couldFind(worker: string, { picks, token }: ClaimRequest): boolean {
    const num = tables.workerNumber(worker)
    if (num !== undefined && again.get(num, token) !== undefined) return true
    return picks.some(({ queue, lane }) => {
      const queueId = tables.openQueue(queue)
      return queueId !== undefined && head.get(queueId, lane) !== undefined
    })
  }

  function takeHeads(worker: string, request: ClaimRequest): ClaimedJob[] {
    const now = clock.now()
    const workerNum = renewWorker(worker, now + request.lease)
    const before = again.all(workerNum, request.token)
    if (before.length > 0)
      return before.map((row) => toClaimed(row as unknown as Row, request.token, row[12]))
    const claimed: ClaimedJob[] = []
    const open = new Map<string, number | undefined>()

    takeByPicks(request.room, request.picks, (queue, lane, count) => {
      if (!open.has(queue)) open.set(queue, tables.openQueue(queue))
      const queueId = open.get(queue)
      if (queueId === undefined) return 0
      const rows = take.all(queueId, lane, count)
      const last = rows.at(-1)
      if (last === undefined) return 0
      lease.run(workerNum, request.token, now, queueId, lane, rows.length)
      leave.run(queueId, lane, last[0])
      for (const row of rows) {
        tally.move(row[2], 'pending', 'running', 1)
        claimed.push(toClaimed(row, request.token, now))
      }
      return rows.length
    })
    return claimed
  }

  function toClaimed(row: Row, token: string, now: number): ClaimedJob {
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
    }
  }
}

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
