import { batchJob } from '../client/built-in.js'
import type { Runtime } from '../client/runtime.js'
import { makeUndo } from '../client/undo.js'
import { bounds } from '../core/bounds.js'
import type { AnyJob } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { type Family, type LinkRecord, standsInTheWay } from '../core/family.js'
import { type ClaimedJob, type FinalState, isFinal, type NewJob } from '../core/job.js'
import { cancelled, failed, type Outcome, snoozed } from '../core/lifecycle.js'
import { wakeBatch } from './batch-callbacks.js'
import { linksOf } from './links.js'
import type { Run } from './run.js'

/** Whether what became of its children may keep a job from running: worth asking `obstacle`. */
export function mayBeHindered({ name, family }: ClaimedJob): boolean {
  return family !== undefined && (family.failed > 0 || family.open || name === batchJob.name)
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
  const links = await inTheWay(run.job.id, runtime)
  const compensated = links.find(({ onFailure }) => onFailure === 'compensate')
  if (compensated !== undefined) {
    const { below, completed, isQuiet } = await lookBelow(run.job.id, runtime)
    if (!isQuiet) return snoozed(untilQuiet)
    run.consequences = await undoOf(below, completed, runtime, jobs)
    return dies(run, runtime, childFailed('COMPENSATED', compensated, `; what undoes the others was added`))
  }
  const dead = links.find(({ end }) => end === 'dead')
  if (dead !== undefined) return dies(run, runtime, childFailed('CHILD_FAILED', dead, ''))
  const [first] = links
  return first && cancelled(`its child ${first.child} was cancelled`, run.policy.retain)
}

/** Some of the children that stand in its way; those that died among the first to be found. */
async function inTheWay(id: string, runtime: Runtime): Promise<LinkRecord[]> {
  const found: LinkRecord[] = []
  for await (const link of linksOf(runtime, { parents: [id], failed: true })) {
    if (standsInTheWay(link.end as FinalState, link.onFailure)) found.push(link)
    if (found.length === bounds.page) break
  }
  return found
}

function dies(run: Run, runtime: Runtime, error: MillraceError): Outcome {
  const failure = describeFailure(run.job.name, error)
  const verdict = { failure, error, retryable: false, retryAfter: undefined, excused: true }
  return failed(run.job, verdict, run.policy.backoff, run.policy.retain, runtime.random)
}

/** Below a job that was cancelled, some may still run, or were replayed: what they do is to be undone too. */
const untilQuiet = 1000

/** What undoes all that completed below it, the last one first, each after the one before. */
async function undoOf(
  below: ReadonlySet<string>,
  completed: readonly LinkRecord[],
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<NewJob[] | undefined> {
  const done: LinkRecord[] = []
  for (const link of completed) if (!(await isNeeded(link.child, below, runtime))) done.push(link)
  // Those that were found first waited for the others: of two that ended at once, they came later.
  done.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
  return done.length === 0 ? undefined : makeUndo(runtime, jobs, done)
}

interface Below {
  /** It and all that it waited for, directly or not. */
  readonly below: ReadonlySet<string>
  /** What of that can be undone. */
  readonly completed: LinkRecord[]
  /** All of that has ended. */
  readonly isQuiet: boolean
}

async function lookBelow(id: string, runtime: Runtime): Promise<Below> {
  const below = new Set([id])
  let isQuiet = true
  const completed: LinkRecord[] = []
  for (let parents = [id]; parents.length > 0; ) {
    const next: string[] = []
    const level = new Map<string, LinkRecord>()
    for (let i = 0; i < parents.length; i += bounds.page)
      for await (const link of linksOf(runtime, { parents: parents.slice(i, i + bounds.page) })) {
        if (!below.has(link.child)) next.push(link.child)
        below.add(link.child)
        if (link.end === undefined) isQuiet = false
        const isUndone = completed.some(({ child }) => child === link.child)
        if (link.end === 'completed' && link.undo !== undefined && !isUndone) level.set(link.child, link)
      }
    completed.push(...[...level.values()].reverse())
    parents = next
  }
  return { below, completed, isQuiet }
}

/** A job of another branch has used it, or will, because nothing stands in its way: then it stays as it is. */
async function isNeeded(child: string, below: ReadonlySet<string>, runtime: Runtime): Promise<boolean> {
  const [record] = await runtime.store.get([child])
  const others = (record?.family?.parents ?? []).filter((id) => !below.has(id))
  if (others.length === 0) return false
  const records = (await runtime.store.get(others)).filter((other) => other !== undefined)
  return records.some(
    ({ state, family }) => state === 'completed' || (!isFinal(state) && family?.failed === 0),
  )
}

function childFailed(code: 'CHILD_FAILED' | 'COMPENSATED', link: LinkRecord, more: string): MillraceError {
  const how = link.end === 'dead' ? 'died' : 'was cancelled'
  const why = link.failure === undefined ? '' : `: ${link.failure.message}`
  const way = code === 'CHILD_FAILED' ? '; retry the child, and this job waits for it again' : ''
  const error = new MillraceError(code, `child ${link.child} ('${link.name}') ${how}${why}${more}${way}`)
  error.stack = ''
  return error
}

function incomplete(id: string): MillraceError {
  const error = new MillraceError(
    'FLOW_INCOMPLETE',
    `flow ${id} was not completed in time: the process that added it was lost, or slower than its \`patience\``,
  )
  error.stack = ''
  return error
}
