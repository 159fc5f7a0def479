import { isFinal, type JobRecord, type JobState } from '../../core/job.js'
import type { Entry } from './entry.js'
import { familyOf } from './family.js'
import type { Tables } from './tables.js'

/** What a reader sees of a job. */
export function toRecord(tables: Tables, entry: Entry): JobRecord {
  const { job, state, rank, lease, story } = entry
  return {
    id: job.id,
    name: job.name,
    queue: job.queue,
    lane: job.lane,
    state,
    input: job.input,
    attempt: (story?.attempt ?? 0) + (state === 'running' ? 1 : 0),
    crashes: story?.crashes ?? 0,
    maxAttempts: job.maxAttempts,
    maxCrashes: job.maxCrashes,
    createdAt: entry.createdAt,
    dueAt: isDelayed(state) && rank !== Number.POSITIVE_INFINITY ? rank : undefined,
    startedAt: lease?.at ?? story?.startedAt,
    finishedAt: story?.finishedAt,
    expiresAt: isFinal(state) ? rank : undefined,
    worker: lease?.worker.id,
    result: story?.result,
    failure: story?.failure,
    cancelReason: story?.cancelReason,
    progress: story?.progress,
    overrides: job.overrides,
    tags: job.tags,
    metadata: job.metadata,
    group: job.traffic?.group,
    key: job.traffic?.key,
    family: familyOf(tables, entry),
    unwinds: job.unwinds === true,
  }
}

/** One whose rank is when it becomes ready; a blocked one may have no such time. */
function isDelayed(state: JobState): boolean {
  return state === 'scheduled' || state === 'retrying' || state === 'blocked'
}
