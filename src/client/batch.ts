import { bounds } from '../core/bounds.js'
import { type AnyJob, checkDefinition, type JobDefinition } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError, queueFull } from '../core/errors.js'
import type { NewFamily } from '../core/family.js'
import type { JobRecord, NewJob } from '../core/job.js'
import { invalid, jobId, name, noUnknown, noUnknownIn } from '../core/options.js'
import { type NodeOptions, nodeOptions } from '../core/plan.js'
import type { InsertResult } from '../core/store.js'
import { newId } from '../system/ids.js'
import { nextTurn } from '../system/turn.js'
import { type BatchInput, batchJob, callbacks } from './built-in.js'
import type { Declarations } from './declare.js'
import { familyOf, type Inspector, JobHandle } from './inspect.js'
import { encodeInput, newJob } from './new-job.js'
import { relative } from './relative.js'
import type { Runtime } from './runtime.js'

/**
 * A job that a batch adds when something has become of it. Its id is the batch's with the name of the event, such as
 * `import-7.onComplete`. What became of the jobs it finds by the batch's id: `mill.job(id).graph()`.
 */
export interface Callback<I> {
  // biome-ignore lint/suspicious/noExplicitAny: what becomes of the input inside does not matter
  readonly job: JobDefinition<I, any, unknown>
  readonly input: NoInfer<I>
  readonly options?: NodeOptions
}

export interface NewBatch<C, S, D> {
  /** A batch whose id exists is not made again. */
  readonly id?: string
  /** When all of its jobs have ended, whatever way. */
  readonly onComplete?: Callback<C>
  /** When all of them have completed. */
  readonly onSuccess?: Callback<S>
  /** When the first of them dies; once, however many follow. */
  readonly onDead?: Callback<D>
  /** Whose workers look after the batch. @default that of the first callback */
  readonly queue?: string
  /** A batch that nobody seals by then is sealed. @default '1d' */
  readonly patience?: Duration
}

/** How far a batch is. */
export interface BatchProgress {
  readonly jobs: number
  /** How many of them have not ended. */
  readonly left: number
  /** It has not been sealed. */
  readonly open: boolean
  /** All jobs have ended, and its callbacks have been added. */
  readonly done: boolean
}

const perWrite = 500

/** A set of jobs with callbacks. It takes more of them until it is sealed, and after that while any of them is left. */
export class BatchHandle extends JobHandle<void> {
  readonly #batches: Batches
  /** Nothing but a batch has its id. */
  #isChecked: boolean

  constructor(id: string, status: 'inserted' | 'duplicate' | undefined, batches: Batches) {
    super(id, status, batches.inspector)
    this.#batches = batches
    this.#isChecked = status === 'inserted'
  }

  async enqueue<I, O, R>(
    job: JobDefinition<I, O, R>,
    input: NoInfer<I>,
    options?: NodeOptions & { readonly id?: string },
  ): Promise<JobHandle<R>> {
    await this.#check()
    const [handle] = await this.#batches.add(this.id, job, [input], options)
    return handle as JobHandle<R>
  }

  /** Inputs are checked and written a few hundred at a time, so they may come from a generator. */
  async enqueueMany<I, O, R>(
    job: JobDefinition<I, O, R>,
    inputs: Iterable<NoInfer<I>>,
    options?: NodeOptions,
  ): Promise<JobHandle<R>[]> {
    await this.#check()
    return this.#batches.add(this.id, job, inputs, options)
  }

  /** All of its jobs are there: it is over when they have ended. */
  async seal(): Promise<void> {
    await this.#check()
    return this.#batches.seal(this.id)
  }

  /** Undefined when there is none, or it is kept no more. */
  async progress(): Promise<BatchProgress | undefined> {
    return this.#batches.progress(this.id)
  }

  async #check(): Promise<void> {
    this.#isChecked ||= (await this.#batches.find(this.id)) !== undefined
  }
}

/** Makes batches and adds to them. */
export class Batches {
  readonly runtime: Runtime
  readonly inspector: Inspector
  readonly #declarations: Declarations

  constructor(runtime: Runtime, inspector: Inspector, declarations: Declarations) {
    this.runtime = runtime
    this.inspector = inspector
    this.#declarations = declarations
  }

  handle(id: string): BatchHandle {
    return new BatchHandle(jobId(id), undefined, this)
  }

  async make<C, S, D>(options: NewBatch<C, S, D>): Promise<BatchHandle> {
    noUnknown(options, ['id', ...callbacks, 'queue', 'patience'], 'batch')
    const id = options.id === undefined ? newId(this.runtime.clock.now()) : batchId(options.id)
    const patience = milliseconds(options.patience ?? '1d', 'patience')
    const input: BatchInput = { patience }
    for (const event of callbacks) {
      const callback = options[event]
      if (callback !== undefined)
        input[event] = await this.#callback<unknown>(callback as Callback<unknown>, event, `${id}.${event}`)
    }
    await this.runtime.ready()
    const first = input.onComplete ?? input.onSuccess ?? input.onDead
    const queue = options.queue ?? first?.queue
    const made = newJob(this.runtime, batchJob, encodeInput(this.runtime, input), undefined, {
      id,
      ...(queue !== undefined && { queue: name(queue, 'queue') }),
    })
    const family: NewFamily = { flow: id, node: undefined, parents: [], waits: 'open', patience }
    const [result] = await this.runtime.store.insert([{ ...made, family }])
    if (result?.overflow !== undefined) throw queueFull(made.queue, result.overflow)
    if (result?.status !== 'duplicate') return new BatchHandle(id, 'inserted', this)
    await this.find(id)
    return new BatchHandle(id, 'duplicate', this)
  }

  async #callback<I>(raw: Callback<I>, field: string, id: string): Promise<NewJob> {
    noUnknownIn(field, raw, ['job', 'input', 'options'])
    checkDefinition(raw.job)
    return this.#newJob(raw.job, raw.input, raw.options, id, undefined)
  }

  async #newJob(
    job: AnyJob,
    input: unknown,
    options: NodeOptions | undefined,
    id: string | undefined,
    family: NewFamily | undefined,
  ): Promise<NewJob> {
    if (job.traffic !== undefined && !this.#declarations.has(job)) await this.#declarations.add(job)
    return { ...(await relative(this.runtime, job, input, options, id)), family }
  }

  async add<R>(
    batch: string,
    job: AnyJob,
    inputs: Iterable<unknown>,
    options: (NodeOptions & { readonly id?: string }) | undefined,
  ): Promise<JobHandle<R>[]> {
    checkDefinition(job)
    const { id, ...own } = options ?? {}
    noUnknown(own, nodeOptions, 'batch.enqueue')
    await this.runtime.ready()
    const handles: JobHandle<R>[] = []
    const family: NewFamily = {
      flow: batch,
      node: undefined,
      parents: [{ id: batch, onFailure: 'continue', wakes: true, undo: undefined }],
      waits: 'no',
      patience: 0,
    }
    let jobs: NewJob[] = []
    const write = async () => {
      handles.push(...(await this.#write<R>(batch, jobs)))
      jobs = []
    }
    for (const input of inputs) {
      jobs.push(await this.#newJob(job, input, own, id === undefined ? undefined : jobId(id), family))
      if (jobs.length < perWrite) continue
      await write()
      await nextTurn()
    }
    if (jobs.length > 0) await write()
    return handles
  }

  async #write<R>(batch: string, jobs: readonly NewJob[]): Promise<JobHandle<R>[]> {
    const results = await this.runtime.store.insert(jobs)
    return jobs.map(({ id, name, queue }, i) => {
      const { status, state } = results[i] as InsertResult
      if (status === 'orphaned') throw state === undefined ? over(batch) : taken(batch, id)
      const { events } = this.runtime
      const duplicate = status === 'duplicate'
      if (events.wants('enqueued')) events.emit('enqueued', { id, name, queue, duplicate })
      return this.inspector.handle<R>(id, duplicate ? 'duplicate' : 'inserted')
    })
  }

  async seal(id: string): Promise<void> {
    await this.runtime.ready()
    const { missing } = await this.runtime.store.operate({ ids: [id] }, { do: 'seal' })
    if (missing.length > 0) throw over(id)
  }

  /** Undefined when there is none; what is no batch is refused. */
  async find(id: string): Promise<JobRecord | undefined> {
    await this.runtime.ready()
    const [record] = await this.runtime.store.get([id])
    if (record !== undefined && record.name !== batchJob.name) throw noBatch(record)
    return record
  }

  async progress(id: string): Promise<BatchProgress | undefined> {
    const record = await this.find(id)
    if (record?.family === undefined) return undefined
    const { children, left, open } = familyOf(record.family)
    return { jobs: children, left, open, done: record.state === 'completed' }
  }
}

function batchId(id: string): string {
  const most = bounds.idLength - '.onComplete'.length
  if (jobId(id).length > most) throw invalid('id', id, `at most ${most} characters for a batch`, most)
  return id
}

function noBatch({ id, name, family }: JobRecord): MillraceError {
  const of = family === undefined ? '' : ` of flow ${family.flow}`
  return new MillraceError(
    'FLOW_TAKEN',
    `${id} is no batch but a job '${name}'${of}; a batch needs an id of its own, and other jobs are found with mill.job('${id}')`,
    { field: 'id', value: id },
  )
}

function taken(batch: string, id: string): MillraceError {
  return new MillraceError(
    'FLOW_TAKEN',
    `job ${id} is there already and no part of batch ${batch}; give jobs of a batch ids that are not in use, or none`,
    { field: 'id', value: id },
  )
}

function over(id: string): MillraceError {
  return new MillraceError(
    'FLOW_DONE',
    `batch ${id} does not exist, or all of its jobs have ended and it takes no more; seal it when the last one was added`,
    { field: 'id', value: id },
  )
}
