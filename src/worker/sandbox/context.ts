import { bounds } from '../../core/bounds.js'
import { type ChildPage, Children, type ReadChildren } from '../../core/children.js'
import { jsonCodec } from '../../core/codec.js'
import type { EnqueueFromHandler, JobContext } from '../../core/definition.js'
import { MillraceError } from '../../core/errors.js'
import { type ScheduleSlot, slotOfJob } from '../../core/firing.js'
import type { LogLevel } from '../../core/job.js'
import { invalid } from '../../core/options.js'
import type { StepRecord } from '../../core/step.js'
import type { Step } from '../../core/step-function.js'
import { clean } from '../../core/text.js'
import { Steps } from '../steps.js'
import { notTransactional } from '../transaction.js'
import type { Answer, Assignment, Ending, FromChild, Question, Report, ToChild } from './protocol.js'
import { unpack } from './thrown.js'

/** Reports are gathered this long: a handler that reports in a tight loop must not flood its worker. */
const reportMs = 20

interface Asked {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** The handler's context inside a sandbox. What it cannot do here, it asks the worker for. */
export class SandboxContext implements JobContext {
  readonly #assignment: Assignment
  readonly #post: (message: FromChild) => void
  readonly #controller = new AbortController()
  readonly #asked = new Map<number, Asked>()
  #asks = 0
  #progress: string | undefined
  #logs: Report['logs'][number][] = []
  #reportedAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #ended = false
  readonly #begun = performance.now()
  #steps: Steps | undefined
  /** Resolves when the handler goes no further, because the job waits. */
  readonly suspended: Promise<Ending>
  #suspend: (ending: Ending) => void = () => {}

  constructor(assignment: Assignment, post: (message: FromChild) => void) {
    this.#assignment = assignment
    this.#post = post
    this.suspended = new Promise((resolve) => {
      this.#suspend = resolve
    })
  }

  get jobId(): string {
    return this.#assignment.jobId
  }

  get name(): string {
    return this.#assignment.name
  }

  get queue(): string {
    return this.#assignment.queue
  }

  get attempt(): number {
    return this.#assignment.attempt
  }

  get maxAttempts(): number {
    return this.#assignment.maxAttempts
  }

  get idempotencyKey(): string {
    return this.#assignment.idempotencyKey
  }

  get createdAt(): Date {
    return new Date(this.#assignment.createdAt)
  }

  get tags(): readonly string[] {
    return this.#assignment.tags
  }

  get metadata(): unknown {
    const { metadata } = this.#assignment
    return metadata === undefined ? undefined : jsonCodec.decode(metadata)
  }

  get schedule(): ScheduleSlot | undefined {
    return slotOfJob(this.jobId)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get progress(): (value: unknown) => void {
    return (value) => {
      this.#progress = jsonCodec.encode(value, 'progress', bounds.progressBytes)
      this.#reportSoon()
    }
  }

  get log(): (text: string, level?: LogLevel) => void {
    return (text, level = 'info') => {
      this.#logs.push({ text: clean(String(text), bounds.logText), level })
      if (this.#logs.length > bounds.logLines) this.#logs.shift()
      this.#reportSoon()
    }
  }

  get enqueue(): EnqueueFromHandler {
    return async (job, input, options) => {
      if (typeof job?.name !== 'string') throw invalid('job', job, 'a definition made by defineJob')
      const { maxPayload } = this.#assignment
      const id = await this.#ask({
        verb: 'enqueue',
        job: job.name,
        input: jsonCodec.encode(input, 'input', maxPayload),
        options: options === undefined ? undefined : jsonCodec.encode(options, 'options', maxPayload),
      })
      return id as string
    }
  }

  get children(): JobContext['children'] {
    return this.#children.all
  }

  get results(): JobContext['results'] {
    return this.#children.results
  }

  get resultOf(): JobContext['resultOf'] {
    return this.#children.resultOf
  }

  readonly #readChildren: ReadChildren = (which, cursor) => {
    return this.#ask({ verb: 'children', which, cursor }) as Promise<ChildPage>
  }

  readonly #children = new Children(this.#readChildren)

  get tx(): <Tx = unknown>() => Promise<Tx> {
    return () => Promise.reject(notTransactional(this.name))
  }

  get step(): Step {
    this.#steps ??= this.#makeSteps()
    return this.#steps.api
  }

  #makeSteps(): Steps {
    const context = this
    const { signal } = this.#controller
    return new Steps({
      jobId: this.jobId,
      codec: jsonCodec,
      get ended() {
        return context.#ended
      },
      get stopped() {
        return signal.aborted ? signal.reason : undefined
      },
      hasBegun: false,
      now: () => Math.round(this.#assignment.now + performance.now() - this.#begun),
      read: async () => (await this.#ask({ verb: 'read steps' })) as StepRecord[],
      write: async (records) => void (await this.#ask({ verb: 'write steps', steps: records })),
      begin: () => Promise.reject(noTransactions()),
      addChildren: async ({ fan, job, inputs, ids, options, steps }) => {
        const most = Number.MAX_SAFE_INTEGER
        await this.#ask({
          verb: 'add children',
          fan,
          job: job.name,
          inputs: jsonCodec.encode(inputs, 'inputs', most),
          ids,
          options: options === undefined ? undefined : jsonCodec.encode(options, 'options', most),
          steps,
        })
      },
      readChildren: this.#readChildren,
      replays: async () => (await this.#ask({ verb: 'replays' })) as number,
      close: async (close) => (await this.#ask({ verb: 'close fan', close })) as boolean,
      suspend: (wait) => this.#suspend({ how: 'waits', wait }),
    })
  }

  /** The handler has settled; undefined when none of its steps is running. */
  endSteps(): Promise<void> | undefined {
    return this.#steps?.end()
  }

  /** Sleeps and waits that began, for the outcome. */
  takeSteps(): StepRecord[] {
    return this.#steps?.take() ?? []
  }

  #ask(question: Question): Promise<unknown> {
    if (this.#ended) throw tooLate(this.jobId)
    if (this.#asked.size >= bounds.batch) throw tooMany()
    const id = ++this.#asks
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject })
      this.#post({ type: 'ask', task: this.#assignment.task, id, ...question })
    })
  }

  hear(message: ToChild): void {
    if (message.task !== this.#assignment.task) return
    if (message.type === 'abort') this.#abort(unpack(message.reason))
    if (message.type === 'answer') this.#answer(message.id, message)
  }

  #abort(reason: unknown): void {
    this.#post({ type: 'heard', task: this.#assignment.task })
    this.#controller.abort(reason)
  }

  #answer(id: number, answer: Answer): void {
    const asked = this.#asked.get(id)
    this.#asked.delete(id)
    if ('error' in answer) asked?.reject(unpack(answer.error))
    else asked?.resolve(jsonCodec.decode(answer.value))
  }

  /** Nothing that the handler left behind counts any more. */
  end(): void {
    this.#report()
    this.#ended = true
  }

  /** At once when the last one was a while ago, even if the handler never lets the event loop go round. */
  #reportSoon(): void {
    if (this.#ended) return
    const since = performance.now() - this.#reportedAt
    if (since >= reportMs) this.#report()
    else this.#timer ??= setTimeout(() => this.#report(), reportMs - since)
  }

  #report(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const report = { progress: this.#progress, logs: this.#logs }
    if (this.#ended || (report.progress === undefined && report.logs.length === 0)) return
    this.#progress = undefined
    this.#logs = []
    this.#reportedAt = performance.now()
    this.#post({ type: 'report', task: this.#assignment.task, report })
  }
}

function tooLate(id: string): MillraceError {
  return new MillraceError('LEASE_LOST', `job ${id} has ended; it can add no more`)
}

function tooMany(): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `a handler in a sandbox can have ${bounds.batch} questions to its worker open; await the earlier ones`,
    { limit: bounds.batch },
  )
}

function noTransactions(): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    'a handler in a sandbox has no connection to the store, so step.transaction cannot commit with its writes; use step() and its key, or run it in the worker',
    { field: 'step.transaction' },
  )
}
