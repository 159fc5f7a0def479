import { relative } from '../client/relative.js'
import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { childFailed } from '../core/child-failed.js'
import type { ReadChildren } from '../core/children.js'
import { type AnyJob, type Child, checkDefinition } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import type { NewFamily } from '../core/family.js'
import type { NewJob } from '../core/job.js'
import { noUnknown, oneOf } from '../core/options.js'
import { nodeOptions } from '../core/plan.js'
import type { StepRecord } from '../core/step.js'
import type { ChildrenOptions } from '../core/step-function.js'
import type { Run } from './run.js'

/** Children of one step, a bounded number of them, and what is to be kept with them. */
export interface ChildBatch {
  readonly fan: string
  readonly job: AnyJob
  readonly inputs: readonly unknown[]
  readonly ids: readonly string[]
  readonly options: ChildrenOptions | undefined
  readonly steps: readonly StepRecord[]
}

/**
 * What a step that adds children keeps. Their ids are made of its own, so that a run that goes on with it adds none
 * twice, and one that does it afresh, in another life of the job, takes none of those for its own.
 */
export interface Fan {
  readonly id: string
  /** Known when all of them are there. */
  readonly count?: number
}

const perWrite = 500
const digits = 7

export function checkChildren(job: AnyJob, options: ChildrenOptions = {}): void {
  checkDefinition(job)
  noUnknown(options, [...nodeOptions, 'onFailure'], 'step.children')
  oneOf(options.onFailure ?? 'fail', ['fail', 'continue', 'ignore'], 'onFailure')
}

/** What the step is when these are there, batch by batch. The last one completes it, also when it is empty. */
export function* batchesOf(
  step: string,
  id: string,
  inputs: Iterable<unknown>,
): Generator<Pick<ChildBatch, 'inputs' | 'ids'> & { readonly fan: Fan }> {
  let count = 0
  let batch: unknown[] = []
  const take = () => {
    const inputs = batch
    const ids = inputs.map((_, i) => `${id}.${String(count + i).padStart(digits, '0')}`)
    count += inputs.length
    batch = []
    return { inputs, ids }
  }
  for (const input of inputs) {
    if (count + batch.length === bounds.flow) throw tooMany(step)
    if (batch.length === perWrite) yield { ...take(), fan: { id } }
    batch.push(input)
  }
  const last = take()
  yield { ...last, fan: { id, count } }
}

/** What a step of this name kept, if it added children. */
export function fanOf(step: string, kept: unknown): Fan {
  if (typeof (kept as Fan | undefined)?.id !== 'string') throw anotherStep(step)
  return kept as Fan
}

/** What has become of a step's children; undefined while some have not ended. */
export async function childrenOf({ id }: Fan, read: ReadChildren): Promise<Child[] | undefined> {
  const ended: Child[] = []
  let cursor: string | undefined
  do {
    const page = await read({ prefix: `${id}.` }, cursor)
    if (page.open.length > 0) return undefined
    ended.push(...page.children)
    cursor = page.cursor
  } while (cursor !== undefined)
  return ended
}

/** As the handler wants to see them. */
export function gathered(
  children: readonly Child[],
  { onFailure = 'fail' }: ChildrenOptions = {},
): unknown[] {
  if (onFailure === 'continue') return [...children]
  const failed = children.find(({ state }) => state !== 'completed')
  if (onFailure === 'fail' && failed !== undefined) throw childFailed('CHILD_FAILED', failed, wayOut)
  return children.filter(({ state }) => state === 'completed').map(({ result }) => result)
}

const wayOut = 'retry the child, and this job waits for it again, unless it has taken another step since'

/** The jobs of a batch, as children of the run's own. */
export async function childJobs(run: Run, runtime: Runtime, batch: ChildBatch): Promise<NewJob[]> {
  const { fan, job, inputs, ids, options = {} } = batch
  const { onFailure: _, ...own } = options
  const family: NewFamily = {
    flow: run.job.family?.flow ?? run.job.id,
    node: undefined,
    // What a failure means is for the step to say.
    parents: [{ id: run.job.id, onFailure: 'continue', wakes: false, undo: undefined, fan }],
    waits: 'no',
    patience: 0,
  }
  const jobs: NewJob[] = []
  for (const [i, input] of inputs.entries())
    jobs.push({ ...(await relative(runtime, job, input, own, ids[i])), family })
  return jobs
}

function tooMany(step: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step '${step}' has more than ${bounds.flow} children; let each do more`,
    { field: 'children', limit: bounds.flow },
  )
}

function anotherStep(step: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step '${step}' added no children in an earlier run, it was another one; give new steps new names`,
    { field: 'step', value: step },
  )
}
