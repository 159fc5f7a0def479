import type { ClaimedJob } from '../../core/job.js'
import type { KindName } from './names.js'

/** Of a plain job, without what the server tells of it. */
export function newlyClaimed({ queue, name, lane }: KindName, startedAt: number): ClaimedJob {
  return {
    id: '',
    token: '',
    name,
    queue,
    lane,
    input: '',
    attempt: 1,
    crashes: 0,
    maxAttempts: 0,
    maxCrashes: 0,
    createdAt: 0,
    readyAt: 0,
    startedAt,
    retryDelay: 0,
    overrides: undefined,
    tags: undefined,
    metadata: undefined,
    group: undefined,
    key: undefined,
    suspect: false,
    family: undefined,
    guard: undefined,
    stepped: false,
    cancelReason: undefined,
  }
}
