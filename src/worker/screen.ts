import type { AnyJob } from '../core/definition.js'
import { isTooNew } from '../core/evolution.js'
import type { ClaimedJob } from '../core/job.js'
import { cancelled, completedBefore, type Outcome, putOff, type Retention } from '../core/lifecycle.js'
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
export function outcomeOfGuard(
  job: ClaimedJob,
  definition: AnyJob | undefined,
  retain: Retention,
): Outcome | undefined {
  const { guard, overrides, cancelReason, stepped } = job
  if (guard === undefined || guard.status === 'begun') return undefined
  const own = readOverrides(overrides).retain ?? retain
  if (guard.status === 'done')
    return hasToUndo(job, definition) ? undefined : completedBefore(guard.result, own)
  // It waits for its turn to undo what an earlier life did; without steps there is nothing of that.
  if (cancelReason !== undefined && !stepped) return cancelled(cancelReason, own)
  return putOff(guard.retryIn ?? 0)
}

/** A saga of which parts are done, while another did all of it: its handler is for that. */
function hasToUndo({ stepped }: ClaimedJob, definition: AnyJob | undefined): boolean {
  return stepped && (definition === undefined || definition.unwinds === true)
}

/** Why a job that undoes what it did is to do so. */
export function whyUnwind({ cancelReason, guard }: ClaimedJob): string | undefined {
  return cancelReason ?? (guard?.status === 'done' ? doneByAnother : undefined)
}

const doneByAnother = 'another job has completed under its idempotency key'
