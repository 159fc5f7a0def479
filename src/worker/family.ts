import { batchJob } from '../client/built-in.js'
import type { Runtime } from '../client/runtime.js'
import { makeUndo } from '../client/undo.js'
import { bounds } from '../core/bounds.js'
import { childFailed } from '../core/child-failed.js'
import type { AnyJob } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { type Family, type LinkRecord, standsInTheWay } from '../core/family.js'
import { type ClaimedJob, type FinalState, isFinal, type JobRecord, type NewJob } from '../core/job.js'
import { cancelled, failed, type Outcome } from '../core/lifecycle.js'
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
    run.consequences = await undoOf(run, runtime, jobs)
    const so =
      run.consequences === undefined ? 'nothing had to be undone' : 'what undoes the others was added'
    return dies(run, runtime, childFailed('COMPENSATED', ended(compensated), so))
  }
  const dead = links.find(({ end }) => end === 'dead')
  if (dead !== undefined) return dies(run, runtime, childFailed('CHILD_FAILED', ended(dead)))
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
  error.stack = '' // of ours, where nobody looks for the reason
  const failure = describeFailure(run.job.name, error)
  const verdict = { failure, error, retryable: false, retryAfter: undefined, excused: true }
  return failed(run.job, verdict, run.policy.backoff, run.policy.retain, runtime.random)
}

/** What undoes all that completed below it, the last one first, each after the one before. */
async function undoOf(
  run: Run,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<NewJob[] | undefined> {
  const { below, completed } = await lookBelow(run.job.id, runtime)
  const needed = await neededElsewhere([...completed.keys()], below, runtime)
  const done = [...completed.values()].filter(({ child }) => !needed.has(child))
  // Those that were found first waited for the others: of two that ended at once, they came later.
  done.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
  return done.length === 0 ? undefined : makeUndo(runtime, jobs, done)
}

/** It and all that it waited for, directly or not; and what of that can be undone, by its id. */
async function lookBelow(
  id: string,
  runtime: Runtime,
): Promise<{ below: ReadonlySet<string>; completed: ReadonlyMap<string, LinkRecord> }> {
  const below = new Set([id])
  const completed = new Map<string, LinkRecord>()
  for (let parents = [id]; parents.length > 0; ) {
    const next: string[] = []
    const level = new Map<string, LinkRecord>()
    for (let i = 0; i < parents.length; i += bounds.page)
      for await (const link of linksOf(runtime, { parents: parents.slice(i, i + bounds.page) })) {
        if (!below.has(link.child)) next.push(link.child)
        below.add(link.child)
        const canBeUndone = link.end === 'completed' && link.undo !== undefined
        if (canBeUndone && !completed.has(link.child)) level.set(link.child, link)
      }
    for (const link of [...level.values()].reverse()) completed.set(link.child, link)
    parents = next
  }
  return { below, completed }
}

/** Those that a job of another branch has used, or will, because nothing stands in its way: they stay as they are. */
async function neededElsewhere(
  ids: readonly string[],
  below: ReadonlySet<string>,
  runtime: Runtime,
): Promise<ReadonlySet<string>> {
  const usersOf = new Map<string, readonly string[]>()
  for (const { id, family } of await read(ids, runtime))
    usersOf.set(id, family?.parents.filter((parent) => !below.has(parent)) ?? [])
  const users = await read([...new Set([...usersOf.values()].flat())], runtime)
  const needy = new Set(users.filter(needsChildren).map(({ id }) => id))
  return new Set(ids.filter((id) => usersOf.get(id)?.some((user) => needy.has(user))))
}

function needsChildren({ state, family }: JobRecord): boolean {
  return state === 'completed' || (!isFinal(state) && family?.failed === 0)
}

/** Those that are still there. */
async function read(ids: readonly string[], runtime: Runtime): Promise<JobRecord[]> {
  const found: JobRecord[] = []
  for (let i = 0; i < ids.length; i += bounds.page)
    for (const record of await runtime.store.get(ids.slice(i, i + bounds.page)))
      if (record !== undefined) found.push(record)
  return found
}

function ended({ child, name, end, failure }: LinkRecord) {
  return { id: child, name, state: end as FinalState, failure }
}

function incomplete(id: string): MillraceError {
  return new MillraceError(
    'FLOW_INCOMPLETE',
    `flow '${id}' was not completed in time: the process that added it was lost, or slower than its \`patience\``,
  )
}
