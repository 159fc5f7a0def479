import { mostMoved } from '../../core/flow/control.js'
import { takeByTurns } from '../../core/flow/turns.js'
import type { ClaimedJob } from '../../core/job.js'
import { takeByPicks } from '../../core/lanes.js'
import type { ClaimRequest } from '../../core/store.js'
import type { Entry } from './entry.js'
import { FlowLine } from './flow.js'
import type { Queue } from './kind.js'
import type { Sorted } from './sorted.js'
import type { Tables } from './tables.js'
import type { Lease } from './worker.js'

interface Claimed {
  readonly jobs: ClaimedJob[]
  /** It has not looked at all that may start: worth another claim at once. */
  readonly more: boolean
}

/** Puts the heads of the asked lanes under the worker's lease. */
export function claim(tables: Tables, id: string, request: ClaimRequest, now: number): Claimed {
  const worker = tables.renew(id, now + request.lease)
  const before = worker.leaseOf(request.token)
  // A repeated claim takes nothing new: its token may already have been presented by a settlement.
  if (before !== undefined) {
    const suspect = (entry: Entry) => tables.flow.isSuspect(entry.kind.name)
    return { jobs: before.held().map((entry) => toClaimed(entry, before, suspect(entry))), more: false }
  }
  const lease = worker.newLease(request.token, now)
  const claimed: ClaimedJob[] = []
  const asked: Asked = { tables, lease, claimed, turn: request.turn, moved: false, more: false }
  if (hasLimits(tables, request)) tables.flow.unpark(now)
  takeByPicks(request.room, request.picks, (name, lane, count) => {
    const queue = tables.kinds.queues.get(name)
    const line = queue?.lines[lane]
    if (queue === undefined || line === undefined || queue.paused) return 0
    return queue.flow ? takeWithLimits(asked, queue, lane, count) : takeHeads(asked, line, count)
  })
  return { jobs: claimed, more: asked.more }
}

/** When a limit that holds up jobs of these queues opens by itself. */
export function opensAt(tables: Tables, request: ClaimRequest, now: number): number | undefined {
  if (!hasLimits(tables, request)) return undefined
  let at = tables.places.nextDue ?? Number.POSITIVE_INFINITY
  for (const { queue, lane } of request.picks) {
    for (const name of waitingNames(tables.kinds.queues.get(queue), lane)) {
      if (tables.flow.room(queue, name, now) === 0) at = Math.min(at, tables.flow.opensAt(queue, name, now))
    }
  }
  return at === Number.POSITIVE_INFINITY ? undefined : at
}

/** Queues that have none pay for none. */
function hasLimits({ kinds }: Tables, { picks }: ClaimRequest): boolean {
  return picks.some(({ queue }) => kinds.queues.get(queue)?.flow === true)
}

/** Of the lines of a lane that have jobs. */
function waitingNames(queue: Queue | undefined, lane: number): string[] {
  if (queue === undefined || !queue.flow || queue.paused) return []
  const names = (queue.flowLines[lane] ?? []).filter((line) => line.jobs.size > 0).map((line) => line.name)
  return (queue.lines[lane]?.size ?? 0) > 0 ? ['', ...names] : names
}

interface Asked {
  readonly tables: Tables
  readonly lease: Lease
  readonly claimed: ClaimedJob[]
  readonly turn: number
  /** Jobs went to a line that may not have been looked at. */
  moved: boolean
  more: boolean
}

function takeHeads({ lease, claimed }: Asked, line: Sorted<Entry>, count: number): number {
  let found = 0
  while (found < count && line.size > 0) {
    const entries = line.take(count - found)
    found += entries.length
    for (const entry of entries) claimed.push(takeUnder(lease, entry, false))
  }
  return found
}

/** The plain line and those with limits or groups take turns; closed ones do not count. */
function takeWithLimits(asked: Asked, queue: Queue, lane: number, count: number): number {
  const found = takeOpen(asked, queue, lane, count)
  if (found === count || !asked.moved) return found
  asked.moved = false
  return found + takeOpen(asked, queue, lane, count - found)
}

function takeOpen(asked: Asked, queue: Queue, lane: number, count: number): number {
  const { flow } = asked.tables
  const now = asked.lease.at
  const plain = queue.lines[lane] as Sorted<Entry>
  const open: (FlowLine | Sorted<Entry>)[] = []
  if (plain.size > 0 && flow.room(queue.name, '', now) > 0) open.push(plain)
  for (const line of queue.flowLines[lane] ?? []) {
    if (line.jobs.size > 0 && flow.room(queue.name, line.name, now) > 0) open.push(line)
  }
  return takeByTurns(open, count, asked.turn, (line, share) =>
    line instanceof FlowLine ? takeFromLine(asked, line, share) : takeFromPlain(asked, queue, line, share),
  )
}

function takeFromLine(asked: Asked, line: FlowLine, count: number): number {
  const { tables, lease, claimed } = asked
  const { flow } = tables
  const most = Math.min(count, flow.room(line.queue, line.name, lease.at))
  const { taken, moved } = flow.take(line, most, lease.at)
  if (moved) asked.moved = true
  if (taken.length < most && line.jobs.size > 0) asked.more = true
  for (const entry of taken) claimed.push(takeUnder(lease, entry, flow.isSuspect(entry.kind.name)))
  return taken.length
}

/** Jobs whose definition got limits while they waited go to a line of their own. */
function takeFromPlain(asked: Asked, queue: Queue, line: Sorted<Entry>, count: number): number {
  const { tables, lease, claimed } = asked
  let found = 0
  for (let looked = 0; line.size > 0; ) {
    const most = Math.min(count - found, tables.flow.room(queue.name, '', lease.at))
    if (most <= 0) break
    if (looked >= mostMoved) {
      asked.more = true
      break
    }
    const entries = line.take(most)
    looked += entries.length
    let started = 0
    for (const entry of entries) {
      if (tables.isPlain(entry)) {
        claimed.push(takeUnder(lease, entry, false))
        started++
      } else {
        tables.flow.enter(entry, false, lease.at)
        asked.moved = true
      }
    }
    tables.flow.started(queue.name, '', started, lease.at)
    found += started
  }
  return found
}

function takeUnder(lease: Lease, entry: Entry, suspect: boolean): ClaimedJob {
  entry.kind.states.pending--
  entry.kind.states.running++
  entry.state = 'running'
  lease.add(entry)
  return toClaimed(entry, lease, suspect)
}

function toClaimed(entry: Entry, lease: Lease, suspect: boolean): ClaimedJob {
  const { job, story } = entry
  return {
    id: job.id,
    token: lease.token,
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
    group: job.flow?.group,
    key: job.flow?.key,
    suspect,
  }
}
