import { batchJob } from '../client/built-in.js'
import type { Runtime } from '../client/runtime.js'
import { makeUndo } from '../client/undo.js'
import { bounds } from '../core/bounds.js'
import type { ChildPage } from '../core/children.js'
import type { AnyJob, Child } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import { describeFailure } from '../core/failure.js'
import { type Family, type LinkRecord, standsInTheWay } from '../core/family.js'
import type { ClaimedJob, FinalState, NewJob } from '../core/job.js'
import { cancelled, failed, type Outcome } from '../core/lifecycle.js'
import type { LinkQuery } from '../core/store.js'
import { wakeBatch } from './batch-callbacks.js'
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

/** What undoes the completed children, the last one first, each after the one before. */
async function undoOf(
  run: Run,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<NewJob[] | undefined> {
  const done: LinkRecord[] = []
  for await (const link of linksOf(runtime, { parents: [run.job.id] }))
    if (link.end === 'completed' && link.undo !== undefined) done.push(link)
  done.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0) || (b.child < a.child ? -1 : 1))
  return done.length === 0 ? undefined : makeUndo(runtime, jobs, run.job.id, done)
}

/** All links that match, page by page. */
export async function* linksOf(
  runtime: Runtime,
  query: Omit<LinkQuery, 'limit' | 'cursor'>,
): AsyncGenerator<LinkRecord, void, undefined> {
  let cursor: string | undefined
  do {
    const page = await runtime.store.links({ ...query, limit: bounds.page, cursor })
    yield* page.links
    cursor = page.cursor
  } while (cursor !== undefined)
}

export async function readChildren(
  runtime: Runtime,
  parent: string,
  name: string | undefined,
  cursor: string | undefined,
): Promise<ChildPage> {
  const page = await runtime.store.links({ parents: [parent], name, limit: bounds.batch, cursor })
  const children = page.links.map((link) => childOf(link, runtime)).filter((child) => child !== undefined)
  const open = page.links.filter(({ end }) => end === undefined).map(({ child }) => child)
  return { children, open, cursor: page.cursor }
}

/** A child as its parent's handler sees it; undefined for one that it is not to see. */
function childOf(link: LinkRecord, runtime: Runtime): Child | undefined {
  const { child, name, node, end, result, failure, onFailure } = link
  if (end === undefined || (end !== 'completed' && onFailure === 'ignore')) return undefined
  const value = result === undefined ? undefined : runtime.codec.decode(result)
  return { id: child, name, node, state: end, result: value, failure }
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
