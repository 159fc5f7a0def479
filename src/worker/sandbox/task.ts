import type { Runtime } from '../../client/runtime.js'
import { bounds } from '../../core/bounds.js'
import type { Codec } from '../../core/codec.js'
import { jsonCodec } from '../../core/codec.js'
import { type AnyJob, Directive, type EnqueueOptions } from '../../core/definition.js'
import { MillraceError } from '../../core/errors.js'
import type { CompiledSandbox } from '../../core/handler.js'
import type { StepRecord } from '../../core/step.js'
import type { ChildrenOptions } from '../../core/step-function.js'
import type { Run } from '../run.js'
import { childJobs } from '../step-children.js'
import type { Child, Death } from './child.js'
import { awaitHearing } from './hearing.js'
import type { Answer, Assignment, Ending, FromChild, Question, Report } from './protocol.js'
import { pack, unpack } from './thrown.js'

let lastTask = 0

/**
 * One run in one child: the worker's side of the conversation. Settles as the handler would have in this
 * process: with its value or directive, or with what it threw; or with SANDBOX_CRASHED when the child dies.
 * `deaf` is called when the run was told to stop and its child does not hear it.
 */
export function converse(
  child: Child,
  run: Run,
  input: string | undefined,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
  deaf: () => void,
): Promise<unknown> {
  const task = ++lastTask
  const { signal } = run
  let heard = () => {}
  const abort = () => {
    child.post({ type: 'abort', task, reason: pack(run.stopped) })
    heard = awaitHearing(deaf)
  }
  return new Promise((resolve, reject) => {
    let lastWords: unknown
    const hear = (message: FromChild) => {
      // What an earlier task left behind still speaks, and so does what was killed a moment ago.
      if (message.task !== task || run.ended) return
      switch (message.type) {
        case 'heard':
          return heard()
        case 'report':
          return report(run, message.report, runtime)
        case 'ask':
          return void answer(run, message, runtime, jobs).then((given) =>
            child.post({ type: 'answer', task, id: message.id, ...given }),
          )
        case 'ended':
          try {
            run.keep(recode(message.steps, jsonCodec, runtime.codec))
          } catch (error) {
            return reject(error) // the store's codec refuses what the sandbox's could carry
          }
          return conclude(run, message.ending, resolve, reject)
        case 'crashed':
          lastWords = unpack(message.error)
      }
    }
    const died = (death: Death) => reject(crashed(death, lastWords))
    child.task = { hear, died }
    if (child.death !== undefined) died(child.death)
    signal.addEventListener('abort', abort, { once: true })
    child.post({ type: 'run', ...assignment(task, run, input, runtime) })
    if (signal.aborted) abort()
  }).finally(() => {
    child.task = undefined
    heard()
    signal.removeEventListener('abort', abort)
  })
}

function assignment(task: number, run: Run, input: string | undefined, { limits }: Runtime): Assignment {
  const { url, export: name } = run.definition.sandbox as CompiledSandbox
  const { job } = run
  return {
    task,
    url,
    export: name,
    input,
    maxPayload: limits.payload,
    maxResult: limits.result,
    jobId: job.id,
    name: job.name,
    queue: job.queue,
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    idempotencyKey: run.idempotencyKey,
    createdAt: job.createdAt,
    now: run.storeTime(),
    tags: run.tags,
    metadata: job.metadata,
  }
}

/** The store's codec may refuse what the sandbox's could carry; the handler is past the line that said it. */
function report(run: Run, { progress, logs }: Report, { events }: Runtime): void {
  for (const { text, level } of logs) run.log(text, level)
  try {
    if (progress !== undefined) run.progress(jsonCodec.decode(progress))
  } catch (error) {
    events.emit('error', { error, during: 'progress' })
  }
}

async function answer(
  run: Run,
  question: Question,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<Answer> {
  try {
    const value = await ask(run, question, runtime, jobs)
    return { value: jsonCodec.encode(value ?? null, 'answer', Number.MAX_SAFE_INTEGER) }
  } catch (error) {
    return { error: pack(error) }
  }
}

async function ask(
  run: Run,
  question: Question,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<unknown> {
  switch (question.verb) {
    case 'enqueue':
      return enqueue(run, question, jobs)
    case 'children':
      return run.readChildren(question.which, question.cursor)
    case 'add children':
      return addChildren(run, question, runtime, jobs)
    case 'close fan':
      return run.stepStore.close(run, question.close)
    case 'replays':
      return run.stepStore.replays(run)
    case 'read steps':
      return recode(await run.stepStore.read(run), runtime.codec, jsonCodec)
    case 'write steps':
      return run.stepStore.write(run, recode(question.steps, jsonCodec, runtime.codec))
  }
}

async function addChildren(
  run: Run,
  { fan, job, inputs, ids, options, steps }: Extract<Question, { verb: 'add children' }>,
  runtime: Runtime,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<void> {
  const batch = {
    fan,
    job: known(job, jobs),
    inputs: jsonCodec.decode(inputs) as unknown[],
    ids,
    options: options === undefined ? undefined : (jsonCodec.decode(options) as ChildrenOptions),
    steps: recode(steps, jsonCodec, runtime.codec),
  }
  await run.stepStore.insert(run, await childJobs(run, runtime, batch), batch.steps)
}

/** The store's codec may be another than the sandbox's. */
function recode(steps: readonly StepRecord[], from: Codec, to: Codec): StepRecord[] {
  return steps.map((step) => ({
    ...step,
    value:
      step.value === undefined
        ? undefined
        : to.encode(from.decode(step.value), `step '${step.name}'`, bounds.stepBytes),
  }))
}

function enqueue(
  run: Run,
  { job, input, options }: Extract<Question, { verb: 'enqueue' }>,
  jobs: ReadonlyMap<string, AnyJob>,
): Promise<unknown> {
  const definition = known(job, jobs)
  const given = options === undefined ? undefined : (jsonCodec.decode(options) as EnqueueOptions)
  return run.enqueue(definition, jsonCodec.decode(input), given)
}

function known(job: string, jobs: ReadonlyMap<string, AnyJob>): AnyJob {
  const definition = jobs.get(job)
  if (definition !== undefined) return definition
  throw new MillraceError(
    'INVALID_OPTION',
    `a sandbox enqueued a '${job}' job, which its worker does not know; add it to new Millrace({ jobs })`,
    { field: 'job', value: job },
  )
}

function conclude(
  run: Run,
  ending: Ending,
  resolve: (value: unknown) => void,
  reject: (error: unknown) => void,
): void {
  switch (ending.how) {
    case 'returned':
      return resolve(ending.result === undefined ? undefined : jsonCodec.decode(ending.result))
    case 'directed':
      return resolve(
        new Directive(ending.kind, ending.delay, ending.reason, ending.cause && unpack(ending.cause)),
      )
    case 'waits':
      // The child is free for another job; nothing is to be killed.
      run.kill = undefined
      run.suspend(ending.wait)
      return resolve(undefined)
    case 'stopped':
      return reject(run.stopped)
    case 'threw':
      return reject(unpack(ending.error))
  }
}

function crashed({ how, cause }: Death, lastWords: unknown): MillraceError {
  const reason = lastWords ?? cause
  const uncaught = lastWords instanceof Error ? lastWords.message : String(lastWords)
  const what = lastWords === undefined ? how : `died of an error that nobody caught: ${uncaught}`
  const error = new MillraceError('SANDBOX_CRASHED', `the sandbox of this job ${what}`, { cause: reason })
  // Where its worker heard of it says nothing; where the error came from does.
  error.stack = reason instanceof Error ? (reason.stack ?? '') : ''
  return error
}
