import { AsyncLocalStorage } from 'node:async_hooks'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { bounds } from '../core/bounds.js'
import type { ReadChildren } from '../core/children.js'
import type { Codec } from '../core/codec.js'
import { type AnyJob, parseWith } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { invalid, jobId, noUnknown } from '../core/options.js'
import type { StepRecord, Wait } from '../core/step.js'
import type {
  ChildrenOptions,
  SleepOptions,
  Step,
  StepContext,
  StepPart,
  WaitForOptions,
} from '../core/step-function.js'
import { utf8Length } from '../core/text.js'
import { gather } from '../system/turn.js'
import { addAll, type ChildBatch, checkChildren, childrenOf, gathered } from './step-children.js'

/** What the steps of a run need of it, wherever it runs. */
export interface StepHost {
  readonly jobId: string
  readonly codec: Codec
  /** Its outcome is decided. */
  readonly ended: boolean
  /** Why it was told to stop. */
  readonly stopped: unknown
  /** The store's clock, as far as is known here. */
  now(): number
  /** Steps of earlier runs. */
  read(): Promise<readonly StepRecord[]>
  /** Resolves when they are stored. */
  write(steps: readonly StepRecord[]): Promise<void>
  begin(): Promise<StepTransaction>
  addChildren(batch: ChildBatch): Promise<void>
  readonly readChildren: ReadChildren
  /** The run is over: the job waits. */
  suspend(wait: Wait): void
}

export interface StepTransaction {
  readonly tx: unknown
  /** Rejects when it was rolled back before its time: the run was told to stop, or it was open for too long. */
  readonly over: Promise<never>
  commit(steps: readonly StepRecord[]): Promise<void>
  rollback(): Promise<void>
}

/** A sleep or a wait whose promise stays as it is. */
interface Open {
  readonly record: StepRecord
  readonly key: string | undefined
  readonly children: boolean
  readonly reject: (reason: unknown) => void
}

/** Set inside the function of a step, and in all that it sets off: also in runs of other jobs. */
const inside = new AsyncLocalStorage<{ readonly steps: Steps; readonly name: string }>()

/**
 * The steps of one run. It is suspended when it waits for something and no step is running; looked at a turn
 * later, so that the handler has gone as far as it can.
 */
export class Steps {
  readonly api: Step
  readonly #host: StepHost
  #memos: Map<string, StepRecord> | undefined
  #loading: Promise<Map<string, StepRecord>> | undefined
  /** Bytes of all that the steps gave. */
  #bytes = 0
  readonly #names = new Set<string>()
  readonly #calls = new Map<string, number>()
  /** Number of the last signal of each key that the handler has had. */
  readonly #heard = new Map<string, number>()
  /** Steps that go with the next write, whatever that is. */
  readonly #unwritten = new Map<string, StepRecord>()
  readonly #open = new Map<string, Open>()
  /** Each lets a `step.all` fail that has a failed part. */
  readonly #failing = new Set<() => void>()
  #busy = 0
  #checking = false
  /** The handler has settled, or is forgotten. */
  #over = false
  #suspended = false
  #whenQuiet: (() => void) | undefined

  constructor(host: StepHost) {
    this.#host = host
    this.api = Object.assign(
      <R>(name: string, fn: (context: StepContext) => R | PromiseLike<R>) => this.#step(name, fn),
      {
        sleep: (duration: Duration, options?: SleepOptions) => quietly(this.#sleep(duration, options)),
        until: (time: Date | number, options?: SleepOptions) => quietly(this.#until(time, options)),
        waitFor: (key: string, options?: WaitForOptions) => quietly(this.#waitFor(key, options)),
        all: (parts: Parts) => this.#all(parts),
        children: (name: string, job: AnyJob, inputs: Iterable<unknown>, options?: ChildrenOptions) =>
          quietly(this.#children(name, job, inputs, options)),
        transaction: <R>(name: string, fn: (tx: never, context: StepContext) => R | PromiseLike<R>) =>
          this.#transaction(name, fn),
      },
    ) as unknown as Step
  }

  /** The handler has settled. Resolves when no step is running any more; undefined when none is. */
  end(): Promise<void> | undefined {
    this.#over = true
    if (this.#busy === 0) return undefined
    return new Promise((resolve) => {
      this.#whenQuiet = resolve
    })
  }

  /** What is to be written with the outcome; the caller does. */
  take(): StepRecord[] {
    const steps = [...this.#unwritten.values()]
    this.#unwritten.clear()
    return steps
  }

  #restore(steps: readonly StepRecord[]): void {
    for (const step of steps) this.#unwritten.set(step.name, step)
  }

  #step<R>(base: string, fn: (context: StepContext) => R | PromiseLike<R>): Promise<R> {
    return this.#enter(base, async (name) => {
      if (typeof fn !== 'function') throw invalid('step', fn, 'a function that does the work')
      const value = await inside.run({ steps: this, name }, async () => fn(this.#context(name)))
      await this.#keep(this.#done(name, value), (steps) => this.#host.write(steps))
      return value
    })
  }

  #transaction<R>(base: string, fn: (tx: never, context: StepContext) => R | PromiseLike<R>): Promise<R> {
    return this.#enter(base, async (name) => {
      const transaction = await this.#host.begin()
      let value: R
      let done: StepRecord
      try {
        const context = this.#context(name)
        const work = inside.run({ steps: this, name }, async () => fn(transaction.tx as never, context))
        value = await Promise.race([work, transaction.over])
        done = this.#done(name, value)
      } catch (error) {
        await transaction.rollback()
        throw error
      }
      await this.#keep(done, (steps) => transaction.commit(steps))
      return value
    })
  }

  /** Gives what the step gave before, or does its work. */
  #enter<R>(base: string, work: (name: string) => Promise<R>): Promise<R> {
    return this.#taken(base, async (name) => {
      const memo = (await this.#load()).get(name)
      if (memo !== undefined && !memo.open) return this.#decode(memo) as R
      this.#mayGoOn()
      return work(name)
    })
  }

  async #sleep(duration: Duration, options: SleepOptions = {}): Promise<void> {
    const ms = milliseconds(duration, 'sleep')
    return this.#rest(this.#host.now() + ms, options)
  }

  async #until(time: Date | number, options: SleepOptions = {}): Promise<void> {
    const at = time instanceof Date ? time.getTime() : time
    if (typeof at !== 'number' || !(at >= 0 && at <= this.#host.now() + bounds.delay))
      throw invalid('until', time, 'a valid Date or epoch milliseconds, at most 10 years from now')
    return this.#rest(Math.round(at), options)
  }

  async #rest(until: number, options: SleepOptions): Promise<void> {
    noUnknown(options, ['name'], 'sleep')
    await this.#wait(options.name ?? 'sleep', until, undefined)
  }

  async #waitFor(
    key: string,
    options: WaitForOptions & { readonly schema?: StandardSchemaV1 } = {},
  ): Promise<unknown> {
    noUnknown(options, ['timeout', 'name', 'schema'], 'waitFor')
    const { timeout, schema } = options
    const until = timeout === undefined ? undefined : this.#host.now() + milliseconds(timeout, 'timeout')
    const memo = await this.#wait(options.name ?? `wait:${jobId(key, 'key')}`, until, key)
    if (memo.signal === undefined) return undefined
    const payload = this.#decode(memo)
    return schema === undefined ? payload : parseWith(schema, payload, `the payload of signal '${key}'`)
  }

  /** Resolves with the step when it is over, now or in a later run. */
  async #wait(base: string, until: number | undefined, key: string | undefined): Promise<StepRecord> {
    const { name, memo } = await this.#taken(base, async (name) => ({
      name,
      memo: (await this.#load()).get(name),
    }))
    if (memo !== undefined && !memo.open) {
      if (key !== undefined && memo.signal !== undefined)
        this.#heard.set(key, Math.max(memo.signal, this.#heard.get(key) ?? 0))
      return memo
    }
    const at = this.#host.now()
    const begun = memo ?? { name, value: undefined, open: true, until, signal: undefined, at }
    if (memo === undefined && key === undefined && (until as number) <= at) {
      const over = { ...begun, open: false }
      this.#unwritten.set(name, over)
      return over
    }
    if (memo === undefined) this.#unwritten.set(name, begun)
    return new Promise((_, reject) => {
      this.#open.set(name, { record: begun, key, children: false, reject })
      this.#checkSoon()
    })
  }

  async #children(
    base: string,
    job: AnyJob,
    inputs: Iterable<unknown>,
    options?: ChildrenOptions,
  ): Promise<unknown[]> {
    const { added, ended } = await this.#taken(base, async (name) => {
      const memo = (await this.#load()).get(name)
      const added = memo ?? (await this.#addChildren(name, job, inputs, options))
      const ended = await childrenOf(this.#childId(name), job, this.#host.readChildren)
      return { added, ended }
    })
    if (ended !== undefined) return gathered(ended, options)
    return new Promise((_, reject) => {
      this.#open.set(added.name, { record: added, key: undefined, children: true, reject })
      this.#checkSoon()
    })
  }

  async #addChildren(
    name: string,
    job: AnyJob,
    inputs: Iterable<unknown>,
    options: ChildrenOptions | undefined,
  ): Promise<StepRecord> {
    checkChildren(job, options)
    this.#mayGoOn()
    const add = (batch: ChildBatch) => this.#host.addChildren(batch)
    const count = await addAll(this.#childId(name), job, inputs, options, add)
    const done = this.#done(name, count)
    await this.#keep(done, (steps) => this.#host.write(steps))
    return done
  }

  #childId(name: string): string {
    return `${this.#host.jobId}.${name}`
  }

  async #all(parts: Parts): Promise<unknown> {
    const keys = Object.keys(parts)
    const results: Record<string, unknown> = {}
    await new Promise<void>((resolve, reject) => {
      let left = keys.length
      let failure: { readonly error: unknown } | undefined
      const fail = () => {
        this.#failing.delete(fail)
        reject(failure?.error)
      }
      const settle = () => {
        if (--left > 0) return this.#checkSoon()
        if (failure === undefined) resolve()
        else fail()
      }
      if (left === 0) resolve()
      for (const key of keys) {
        start((parts as Readonly<Record<string, StepPart>>)[key] as StepPart).then(
          (value) => {
            results[key] = value
            settle()
          },
          (error: unknown) => {
            failure ??= { error }
            this.#failing.add(fail)
            settle()
          },
        )
      }
    })
    return Array.isArray(parts) ? keys.map((key) => results[key]) : results
  }

  /** Names the step at once, in the order of the calls, and counts it among those that run. */
  async #taken<R>(base: string, work: (name: string) => Promise<R>): Promise<R> {
    if (this.#suspended) return new Promise(() => {})
    if (this.#over) throw tooLate(this.#host.jobId)
    this.#mayGoOn()
    const within = inside.getStore()
    if (within?.steps === this) throw nested(base, within.name)
    const name = this.#nameOf(base)
    this.#busy++
    try {
      return await work(name)
    } finally {
      this.#busy--
      if (this.#busy === 0) this.#whenQuiet?.()
      this.#checkSoon()
    }
  }

  #nameOf(base: string): string {
    jobId(base, 'step')
    if (this.#names.size >= bounds.steps) throw tooMany(this.#host.jobId)
    let n = this.#calls.get(base) ?? 0
    let name: string
    do name = ++n === 1 ? base : `${base}#${n}`
    while (this.#names.has(name))
    this.#calls.set(base, n)
    this.#names.add(name)
    return name
  }

  #context(name: string): StepContext {
    return { key: `${this.#host.jobId}:${name}`, check: (value) => void this.#done(name, value) }
  }

  #mayGoOn(): void {
    if (this.#host.stopped !== undefined) throw this.#host.stopped
    if (this.#host.ended) throw tooLate(this.#host.jobId)
  }

  #load(): Promise<Map<string, StepRecord>> {
    this.#loading ??= this.#host.read().then(
      (steps) => {
        this.#memos = new Map(steps.map((step) => [step.name, step]))
        for (const { value } of steps) this.#bytes += sizeOf(value)
        return this.#memos
      },
      (error: unknown) => {
        this.#loading = undefined
        throw error
      },
    )
    return this.#loading
  }

  #done(name: string, value: unknown): StepRecord {
    const { codec } = this.#host
    const text = value === undefined ? undefined : codec.encode(value, `step '${name}'`, bounds.stepBytes)
    if (this.#bytes + sizeOf(text) > bounds.stepsBytes)
      throw tooLarge(this.#host.jobId, name, this.#bytes + sizeOf(text))
    return { name, value: text, open: false, until: undefined, signal: undefined, at: this.#host.now() }
  }

  async #keep(done: StepRecord, write: (steps: readonly StepRecord[]) => Promise<void>): Promise<void> {
    const others = this.take()
    try {
      await write([...others, done])
    } catch (error) {
      this.#restore(others)
      throw error
    }
    this.#bytes += sizeOf(done.value)
    this.#memos?.set(done.name, done)
  }

  #decode({ name, value }: StepRecord): unknown {
    if (value === undefined) return undefined
    try {
      return this.#host.codec.decode(value)
    } catch (error) {
      throw new MillraceError(
        'STORE_CORRUPT',
        `the stored value of step '${name}' of job ${this.#host.jobId} cannot be read`,
        { cause: error },
      )
    }
  }

  #checkSoon(): void {
    if (this.#checking || this.#over || (this.#open.size === 0 && this.#failing.size === 0)) return
    this.#checking = true
    gather(() => {
      this.#checking = false
      this.#check()
    })
  }

  /** Nothing is running: what failed may be told, and what waits is for a later run. */
  #check(): void {
    if (this.#busy > 0 || this.#over || this.#host.ended) return
    const { stopped } = this.#host
    if (stopped !== undefined) return this.#abandon(stopped)
    if (this.#failing.size > 0) {
      for (const fail of [...this.#failing]) fail()
      return this.#checkSoon()
    }
    if (this.#open.size === 0) return
    const wait = this.#waitOf([...this.#open.values()])
    this.#over = true
    this.#suspended = true
    this.#open.clear()
    this.#host.suspend(wait)
  }

  /** The run was told to stop while it waited for steps that ran. */
  #abandon(reason: unknown): void {
    const open = [...this.#open.values()]
    this.#open.clear()
    for (const { reject } of open) reject(reason)
  }

  #waitOf(open: readonly Open[]): Wait {
    const ends = open.map(({ record }) => record.until).filter((until) => until !== undefined)
    return {
      until: ends.length === 0 ? undefined : Math.min(...ends),
      signals: open.flatMap(({ record, key }) =>
        key === undefined ? [] : { key, step: record.name, after: this.#heard.get(key) ?? 0 },
      ),
      children: open.some(({ children }) => children),
    }
  }
}

type Parts = readonly StepPart[] | Readonly<Record<string, StepPart>>

async function start(part: StepPart): Promise<unknown> {
  return typeof part === 'function' ? part() : part
}

/** A wait that the handler has not come to yet may be told of a stop: that is no error of its own. */
function quietly<R>(wait: Promise<R>): Promise<R> {
  wait.catch(() => {})
  return wait
}

function sizeOf(text: string | undefined): number {
  return text === undefined ? 0 : utf8Length(text, bounds.stepBytes)
}

function nested(name: string, within: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step '${name}' was taken inside of step '${within}'; take it beside it, and use step.all for several at a time`,
    { field: 'step', value: name },
  )
}

function tooMany(id: string): MillraceError {
  return new MillraceError(
    'TOO_MANY_STEPS',
    `job ${id} takes more than ${bounds.steps} steps; do more in each, or give parts of the work to other jobs`,
    { field: 'step', limit: bounds.steps },
  )
}

function tooLarge(id: string, name: string, bytes: number): MillraceError {
  return new MillraceError(
    'PAYLOAD_TOO_LARGE',
    `with step '${name}' the steps of job ${id} have ${bytes} bytes, the limit for all of them is ${bounds.stepsBytes}; store the data elsewhere and give a reference`,
    { field: `step '${name}'`, value: bytes, limit: bounds.stepsBytes },
  )
}

function tooLate(id: string): MillraceError {
  return new MillraceError('LEASE_LOST', `job ${id} has ended; it can take no more steps`)
}
