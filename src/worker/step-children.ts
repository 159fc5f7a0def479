import { relative } from '../client/relative.js'
import type { Runtime } from '../client/runtime.js'
import { bounds } from '../core/bounds.js'
import { childFailed } from '../core/child-failed.js'
import type { ReadChildren } from '../core/children.js'
import { type AnyJob, type Child, checkDefinition } from '../core/definition.js'
import { MillraceError } from '../core/errors.js'
import type { NewFamily } from '../core/family.js'
import type { NewJob } from '../core/job.js'
import { invalid, jobId, noUnknown, oneOf } from '../core/options.js'
import { nodeOptions } from '../core/plan.js'
import type { ChildrenOptions } from '../core/step-function.js'
import type { Run } from './run.js'

/** Children of one step, a bounded number of them. */
export interface ChildBatch {
  readonly job: AnyJob
  readonly inputs: readonly unknown[]
  readonly ids: readonly string[]
  readonly options: ChildrenOptions | undefined
}

const perWrite = 500
const digits = 7

export function checkChildren(job: AnyJob, options: ChildrenOptions = {}): void {
  checkDefinition(job)
  noUnknown(options, [...nodeOptions, 'onFailure'], 'step.children')
  oneOf(options.onFailure ?? 'fail', ['fail', 'continue', 'ignore'], 'onFailure')
}

/** Adds them in batches; their ids are made of the step's, so that a run that does it again adds none twice. */
export async function addAll(
  step: string,
  job: AnyJob,
  inputs: Iterable<unknown>,
  options: ChildrenOptions | undefined,
  add: (batch: ChildBatch) => Promise<void>,
): Promise<number> {
  let count = 0
  let batch: unknown[] = []
  const flush = async () => {
    const ids = batch.map((_, i) => idOf(step, count + i))
    await add({ job, inputs: batch, ids, options })
    count += batch.length
    batch = []
  }
  for (const input of inputs) {
    batch.push(input)
    if (count + batch.length > bounds.flow) throw tooMany(step)
    if (batch.length === perWrite) await flush()
  }
  if (batch.length > 0) await flush()
  return count
}

/** What has become of a step's children; undefined while some have not ended. */
export async function childrenOf(
  step: string,
  job: AnyJob,
  read: ReadChildren,
): Promise<Child[] | undefined> {
  const ended: Child[] = []
  const isOurs = (id: string) => id.startsWith(`${step}.`) && id.length === step.length + 1 + digits
  let cursor: string | undefined
  do {
    const page = await read(job.name, cursor)
    if (page.open.some(isOurs)) return undefined
    for (const child of page.children) if (isOurs(child.id)) ended.push(child)
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
  if (onFailure === 'fail' && failed !== undefined) throw childFailed('CHILD_FAILED', failed)
  return children.filter(({ state }) => state === 'completed').map(({ result }) => result)
}

/** The jobs of a batch, as children of the run's own. */
export async function childJobs(run: Run, runtime: Runtime, batch: ChildBatch): Promise<NewJob[]> {
  const { job, inputs, ids, options = {} } = batch
  const { onFailure: _, ...own } = options
  const family: NewFamily = {
    flow: run.job.family?.flow ?? run.job.id,
    node: undefined,
    // What a failure means is for the step to say.
    parents: [{ id: run.job.id, onFailure: 'continue', wakes: false, undo: undefined }],
    waits: 'no',
    patience: 0,
  }
  const jobs: NewJob[] = []
  for (const [i, input] of inputs.entries())
    jobs.push({ ...(await relative(runtime, job, input, own, ids[i])), family })
  return jobs
}

function idOf(step: string, index: number): string {
  const id = `${step}.${String(index).padStart(digits, '0')}`
  if (id.length > bounds.idLength)
    throw invalid(
      'step',
      step,
      `a shorter name: ids of its children would have ${id.length} characters`,
      bounds.idLength,
    )
  return jobId(id)
}

function tooMany(step: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step ${step} has more than ${bounds.flow} children; let each do more`,
    { field: 'children', limit: bounds.flow },
  )
}
