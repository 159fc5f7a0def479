import type { AnyJob } from '../core/definition.js'
import { isTooNew } from '../core/evolution.js'
import type { ClaimedJob } from '../core/job.js'
import { completedBefore, type Outcome, putOff, type Retention } from '../core/lifecycle.js'
import { readOverrides } from '../core/options.js'

/** Whether there may be a reason not to run it: most jobs carry nothing that could be one. */
export function needsScreening({ overrides, guard }: ClaimedJob): boolean {
  return overrides !== undefined || guard !== undefined
}

/** Its input has a form that only a newer deploy knows. */
export function isOfNewerDeploy(job: ClaimedJob, definition: AnyJob | undefined): boolean {
  return definition !== undefined && isTooNew(definition.evolution, versionOf(job))
}

/** The form of its input; 0 when it was enqueued without one. */
export function versionOf({ overrides }: ClaimedJob): number {
  return readOverrides(overrides).version ?? 0
}

/** What becomes of a job that must not run now, because another does the same or has done it. */
export function outcomeOfGuard({ guard, overrides }: ClaimedJob, retain: Retention): Outcome | undefined {
  if (guard === undefined || guard.status === 'begun') return undefined
  if (guard.status === 'busy') return putOff(guard.retryIn ?? 0)
  return completedBefore(guard.result, readOverrides(overrides).retain ?? retain)
}
