import type { ClaimedJob } from '../../core/job.js'
import { takeByPicks } from '../../core/lanes.js'
import type { ClaimRequest } from '../../core/store.js'
import { knownLines, laneOpensAt, type TrafficLane, takeFromLane } from '../../core/traffic/lane.js'
import type { Entry } from './entry.js'
import { familyOf } from './family.js'
import { claimGuard } from './guard.js'
import type { Queue } from './kind.js'
import type { Shelf } from './shelf.js'
import type { Tables } from './tables.js'
import type { TrafficLine } from './traffic.js'
import type { Lease } from './worker.js'

interface Claimed {
  readonly jobs: ClaimedJob[]
  /** It has not looked at all that may start: worth another claim at once. */
  readonly more: boolean
}

/** Puts the heads of the asked lanes under the worker's lease. */
export function claim(tables: Tables, id: string, request: ClaimRequest, now: number): Claimed {
  const worker = tables.workers.renew(id, now + request.lease)
  const before = worker.leaseOf(request.token)
  // A repeated claim takes nothing new: its token may already have been presented by a settlement.
  if (before !== undefined) {
    const suspect = (entry: Entry) => tables.traffic.isSuspect(entry.kind.name)
    const jobs = before.held().map((entry) => toClaimed(tables, entry, before, suspect(entry)))
    return { jobs, more: false }
  }
  const lease = worker.newLease(request.token, now)
  const claimed: ClaimedJob[] = []
  const asked: Asked = { tables, lease, claimed, turn: request.turn, known: request.known, more: false }
  if (hasLimits(tables, request)) tables.traffic.unpark(now)
  takeByPicks(request.room, request.picks, (name, lane, count) => {
    const queue = tables.kinds.findQueue(name)
    const line = queue?.lines[lane]
    if (queue === undefined || line === undefined || queue.paused) return 0
    return queue.traffic ? takeWithLimits(asked, queue, lane, count) : takeHeads(asked, line, count)
  })
  return { jobs: claimed, more: asked.more }
}

/** When a limit that holds up jobs of these queues opens by itself. */
export function opensAt(tables: Tables, request: ClaimRequest, now: number): number | undefined {
  if (!hasLimits(tables, request)) return undefined
  let at = tables.places.nextDue ?? Number.POSITIVE_INFINITY
  for (const { queue, lane } of request.picks) {
    const found = tables.kinds.findQueue(queue)
    if (found?.traffic && !found.paused)
      at = Math.min(at, laneOpensAt(tables.traffic, laneOf(found, lane, request.known), now))
  }
  return at === Number.POSITIVE_INFINITY ? undefined : at
}

/** Queues that have none pay for none. */
function hasLimits({ kinds }: Tables, { picks }: ClaimRequest): boolean {
  return picks.some(({ queue }) => kinds.findQueue(queue)?.traffic === true)
}

function laneOf(queue: Queue, lane: number, known: ClaimRequest['known']): TrafficLane<TrafficLine> {
  return {
    queue: queue.name,
    get hasPlain() {
      return queue.lines[lane]?.isEmpty === false
    },
    get lines() {
      return knownLines(queue.trafficLines(lane), known)
    },
  }
}

interface Asked {
  readonly tables: Tables
  readonly lease: Lease
  readonly claimed: ClaimedJob[]
  readonly turn: number
  readonly known: ClaimRequest['known']
  more: boolean
}

function takeHeads({ tables, lease, claimed }: Asked, line: Shelf<Entry>, count: number): number {
  let found = 0
  while (found < count && !line.isEmpty) {
    const entries = line.take(count - found)
    found += entries.length
    for (const entry of entries) claimed.push(takeUnder(tables, lease, entry, false))
  }
  return found
}

function takeWithLimits(asked: Asked, queue: Queue, lane: number, count: number): number {
  const { tables, lease, claimed, turn, known } = asked
  const { found, more } = takeFromLane(tables.traffic, laneOf(queue, lane, known), count, {
    turn,
    now: lease.at,
    plain: (most) => queue.lines[lane]?.take(most) ?? [],
    start: (entry, suspect) => claimed.push(takeUnder(tables, lease, entry, suspect)),
  })
  if (more) asked.more = true
  return found
}

function takeUnder(tables: Tables, lease: Lease, entry: Entry, suspect: boolean): ClaimedJob {
  entry.kind.states.pending--
  entry.kind.states.running++
  entry.state = 'running'
  lease.add(entry)
  return toClaimed(tables, entry, lease, suspect)
}

function toClaimed(tables: Tables, entry: Entry, lease: Lease, suspect: boolean): ClaimedJob {
  const { job, story } = entry
  return {
    id: job.id,
    token: tables.tokenOf(entry, lease),
    name: job.name,
    queue: job.queue,
    lane: job.lane,
    input: job.input,
    attempt: story === undefined ? 1 : story.attempt + 1,
    crashes: story === undefined ? 0 : story.crashes,
    maxAttempts: job.maxAttempts,
    maxCrashes: job.maxCrashes,
    createdAt: entry.createdAt,
    readyAt: story?.readyAt ?? entry.createdAt,
    startedAt: lease.at,
    retryDelay: story === undefined ? 0 : story.retryDelay,
    overrides: job.overrides,
    tags: job.tags,
    metadata: job.metadata,
    group: job.traffic?.group,
    key: job.traffic?.key,
    suspect,
    family: job.family === undefined || job.family.waits === 'no' ? undefined : familyOf(tables, entry),
    guard: job.guard === undefined ? undefined : claimGuard(tables, job, job.guard, lease.at),
    stepped: story?.steps !== undefined,
    cancelReason: job.unwinds === true ? story?.cancelReason : undefined,
  }
}
