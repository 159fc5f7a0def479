import type { ClaimedJob } from '../../core/job.js'
import { takeByPicks } from '../../core/lanes.js'
import type { ClaimRequest } from '../../core/store.js'
import type { Entry } from './entry.js'
import type { Queue } from './kind.js'
import type { Tables } from './tables.js'
import type { Lease } from './worker.js'

/** Puts the heads of the asked lanes under the worker's lease. */
export function claim(tables: Tables, id: string, request: ClaimRequest, now: number): ClaimedJob[] {
  const worker = tables.renew(id, now + request.lease)
  const before = worker.leaseOf(request.token)
  // A repeated claim takes nothing new: its token may already have been presented by a settlement.
  if (before !== undefined) return before.held().map((entry) => toClaimed(entry, before))
  const lease = worker.newLease(request.token, now)
  const claimed: ClaimedJob[] = []
  takeByPicks(request.room, request.picks, (queue, lane, count) =>
    takeHead(tables.kinds.queues.get(queue), lane, count, lease, claimed),
  )
  return claimed
}

function takeHead(
  queue: Queue | undefined,
  lane: number,
  count: number,
  lease: Lease,
  claimed: ClaimedJob[],
): number {
  const line = queue?.lines[lane]
  if (queue === undefined || line === undefined || queue.paused) return 0
  let found = 0
  while (found < count && line.size > 0) {
    const entries = line.take(count - found)
    found += entries.length
    for (const entry of entries) claimed.push(takeUnder(lease, entry))
  }
  return found
}

function takeUnder(lease: Lease, entry: Entry): ClaimedJob {
  entry.kind.states.pending--
  entry.kind.states.running++
  entry.state = 'running'
  lease.add(entry)
  return toClaimed(entry, lease)
}

function toClaimed(entry: Entry, lease: Lease): ClaimedJob {
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
  }
}
