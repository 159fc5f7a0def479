import { batchJob } from '../client/built-in.js'
import { linksOf } from '../client/links.js'
import type { Runtime } from '../client/runtime.js'
import { childFailed } from '../core/child-failed.js'
import type { AnyJob } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { type Family, type LinkRecord, standsInTheWay } from '../core/family.js'
import type { ClaimedJob, FinalState } from '../core/job.js'
import { cancelled, failed, type Outcome, putOff } from '../core/lifecycle.js'
import { wakeBatch } from './batch-callbacks.js'
import type { Run } from './run.js'
import { lookBelow, undoOf } from './undo.js'

/** Below a job that was cancelled, some may still run, or were replayed: what they do is to be undone too. */
const untilQuiet = 1000

/** Whether what became of its children may keep a job from running: worth asking `obstacle`. */
export function mayBeHindered({ name, family }: ClaimedJob): boolean {
  if (family === undefined) return false
  return family.failed > 0 || family.open || family.compensated || name === batchJob.name
}

/** What becomes of a job that must not run, because of its children; undefined when it may. */
export async function obstacle(
  run: Run,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<Outcome | undefined> {
  const family = run.job.family as Family
  if (run.job.name === batchJob.name) return wakeBatch(run, family, runtime)
  if (family.open) return dies(run, runtime, incomplete(run.job.id))
  const { first, dead, compensated } = await inTheWay(run.job.id, runtime)
  if (compensated !== undefined) {
    const below = await lookBelow(run.job.id, runtime)
    if (!below.isQuiet) return putOff(untilQuiet)
    run.consequences = await undoOf(below, runtime, jobs)
    const isUndone = below.isUndone || run.consequences !== undefined
    const so = isUndone ? 'what undoes the others was added' : 'nothing had to be undone'
    return dies(run, runtime, childFailed('COMPENSATED', ended(compensated), so))
  }
  if (dead !== undefined) return dies(run, runtime, childFailed('CHILD_FAILED', ended(dead)))
  if (first !== undefined)
    return { ...cancelled(`its child ${first.child} was cancelled`, run.policy.retain), idle: true }
  // What stood in its way was replayed, but others have been undone because of it.
  if (family.compensated) return dies(run, runtime, wasUndone(run.job.id))
  // It was replayed since the job was claimed: the next claim knows better.
  return putOff(untilQuiet)
}

interface InTheWay {
  first?: LinkRecord
  dead?: LinkRecord
  compensated?: LinkRecord
}

/** Of the children that stand in its way the first ones of each sort: one with a compensation has the last word. */
async function inTheWay(id: string, runtime: Runtime): Promise<InTheWay> {
  const found: InTheWay = {}
  for await (const link of linksOf(runtime, { parents: [id], failed: true })) {
    if (!standsInTheWay(link.end as FinalState, link.onFailure)) continue
    found.first ??= link
    if (link.end === 'dead') found.dead ??= link
    if (link.onFailure === 'compensate') return { ...found, compensated: link }
  }
  return found
}

/** Nothing ran. */
function dies(run: Run, runtime: Runtime, error: MillraceError): Outcome {
  error.stack = '' // of ours, where nobody looks for the reason
  const failure = describeFailure(run.job.name, error)
  const verdict = { failure, error, retryable: false, retryAfter: undefined, excused: true }
  const outcome = failed(run.job, verdict, run.policy.backoff, run.policy.retain, runtime.random)
  return { ...outcome, idle: true }
}

function ended({ child, name, end, failure }: LinkRecord) {
  return { id: child, name, state: end as FinalState, failure }
}

function wasUndone(id: string): MillraceError {
  return new MillraceError(
    'COMPENSATED',
    `what completed for job '${id}' was undone when it died, so it cannot go on; do all of it again as another job or flow`,
  )
}

function incomplete(id: string): MillraceError {
  return new MillraceError(
    'FLOW_INCOMPLETE',
    `flow '${id}' was not completed in time: the process that added it was lost, or slower than its \`patience\``,
  )
}
