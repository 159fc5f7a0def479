import type { ClaimedJob } from '../../core/job.js'
import type { Body } from './body.js'
import type { Past } from './told.js'

/** Where a job belongs, and how the tokens of its claim end. */
export interface ClaimedKind {
  readonly queue: string
  readonly name: string
  readonly lane: number
  readonly tokenEnd: string
  readonly group: string | undefined
}

/** A plain job under a lease. */
export function plainClaimed(
  id: string,
  position: string,
  { queue, name, lane, tokenEnd, group }: ClaimedKind,
  {
    created_at,
    max_attempts,
    max_crashes,
    input,
    overrides,
    metadata,
  }: Omit<Body, 'kind' | 'seq' | 'child_of' | 'unusual'>,
  { attempt = 0, crashes = 0, readyAt = created_at, retryDelay = 0 }: Past,
  startedAt: number,
): ClaimedJob {
  return {
    id,
    token: position + tokenEnd,
    name,
    queue,
    lane,
    input,
    attempt: attempt + 1,
    crashes,
    maxAttempts: max_attempts,
    maxCrashes: max_crashes,
    createdAt: created_at,
    readyAt,
    startedAt,
    retryDelay,
    overrides: overrides ?? undefined,
    tags: undefined,
    metadata: metadata ?? undefined,
    group,
    key: undefined,
    suspect: false,
    family: undefined,
    guard: undefined,
    stepped: false,
    cancelReason: undefined,
  }
}
