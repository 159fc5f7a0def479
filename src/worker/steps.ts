import { AsyncLocalStorage } from 'node:async_hooks'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { bounds } from '../core/bounds.js'
import { type AnyJob, parseWith } from '../core/definition.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { invalid, jobId, noUnknown } from '../core/options.js'
import { type StepRecord, stepKey, type Wait } from '../core/step.js'
import type {
  ChildrenOptions,
  SleepOptions,
  Step,
  StepContext,
  StepPart,
  WaitForOptions,
} from '../core/step-function.js'
import { gather } from '../system/turn.js'
import { gathered } from './step-children.js'
import { StepFans, type TakenFan } from './step-fans.js'
import { mayGoOn, type StepHost, tooLate } from './step-host.js'
import { StepMemos } from './step-memos.js'
import { StepNames, stepName } from './step-names.js'
import {
  type Group,
  hasReached,
  isWanted,
  type Listeners,
  Part,
  partOf,
  startPart,
  WaitPromise,
  whoWaits,
} from './step-parts.js'

/** A sleep or a wait whose promise stays as it is. */
interface Open {
  readonly record: StepRecord
  readonly key: string | undefined
  /** Children that it waits for. */
  readonly fan: string | undefined
  readonly listeners: Listeners
  readonly reject: (reason: unknown) => void
}

/** Set inside the function of a step, and in all that it sets off: also in runs of other jobs. */
const inside = new AsyncLocalStorage<{ readonly steps: Steps; readonly name: string }>()

/**
 * The steps of one run. It is suspended when someone waits for something, no step is running and no part is at work;
 * looked at a turn later, so that the handler has gone as far as it can.
 */
export class Steps {
  readonly api: Step
  readonly #host: StepHost
  readonly #memos: StepMemos
  readonly #fans: StepFans
  readonly #names: StepNames
  /** Number of the last signal of each key that the handler has had. */
  readonly #heard = new Map<string, number>()
  readonly #open = new Map<string, Open>()
  /** Parts that go on at the same time. */
  readonly #groups = new Set<Group>()
  #busy = 0
  #checking = false
  /** The handler has settled, or is forgotten. */
  #over = false
  #suspended = false
  #whenQuiet: (() => void) | undefined

  constructor(host: StepHost) {
    this.#host = host
    this.#memos = new StepMemos(host)
    this.#fans = new StepFans(host, this.#memos)
    this.#names = new StepNames(host.jobId)
    this.api = Object.assign(
      <R>(name: string, fn: (context: StepContext) => R | PromiseLike<R>) => this.#step(name, fn),
      {
        sleep: (duration: Duration, options?: SleepOptions) =>
          this.#heeded((listeners) => this.#sleep(listeners, duration, options)),
        until: (time: Date | number, options?: SleepOptions) =>
          this.#heeded((listeners) => this.#until(listeners, time, options)),
        waitFor: (key: string, options?: WaitForOptions) =>
          this.#heeded((listeners) => this.#waitFor(listeners, key, options)),
        all: (parts: Parts) => this.#all(parts),
        race: (parts: readonly StepPart[]) => this.#race(parts),
        children: (name: string, job: AnyJob, inputs: Iterable<unknown>, options?: ChildrenOptions) =>
          this.#heeded((listeners) => this.#children(listeners, name, job, inputs, options)),
        transaction: <R>(name: string, fn: (tx: never, context: StepContext) => R | PromiseLike<R>) =>
          this.#transaction(name, fn),
      },
    ) as unknown as Step
  }

  /** A step is running, or parts of it are. */
  get isBusy(): boolean {
    return this.#busy > 0 || this.#groups.size > 0
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
    return this.#memos.take()
  }

  #step<R>(base: string, fn: (context: StepContext) => R | PromiseLike<R>): Promise<R> {
    return this.#enter(base, async (name) => {
      if (typeof fn !== 'function') throw invalid('step', fn, 'a function that does the work')
      const value = await inside.run({ steps: this, name }, async () => fn(this.#context(name)))
      await this.#memos.keep(this.#memos.done(name, value), (steps) => this.#host.write(steps))
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
        done = this.#memos.done(name, value)
      } catch (error) {
        await transaction.rollback()
        throw error
      }
      await this.#memos.keep(done, (steps) => transaction.commit(steps))
      return value
    })
  }

  /** Gives what the step gave before, or does its work. */
  async #enter<R>(base: string, work: (name: string) => Promise<R>): Promise<R> {
    return this.#taken(stepName(base), async (name) => {
      const memo = await this.#memos.find(name)
      if (memo !== undefined && !memo.open) return this.#memos.decode(memo) as R
      mayGoOn(this.#host)
      return work(name)
    })
  }

  #heeded<R>(wait: (listeners: Listeners) => Promise<R>): Promise<R> {
    const listeners: Listeners = new Set()
    return WaitPromise.of(wait(listeners), () => {
      listeners.add(partOf(this))
      this.#checkSoon()
    })
  }

  async #sleep(listeners: Listeners, duration: Duration, options: SleepOptions = {}): Promise<void> {
    const ms = milliseconds(duration, 'sleep')
    return this.#rest(listeners, this.#host.now() + ms, options)
  }

  async #until(listeners: Listeners, time: Date | number, options: SleepOptions = {}): Promise<void> {
    const at = time instanceof Date ? time.getTime() : time
    if (typeof at !== 'number' || !(at >= 0 && at <= this.#host.now() + bounds.delay))
      throw invalid('until', time, 'a valid Date or epoch milliseconds, at most 10 years from now')
    return this.#rest(listeners, Math.round(at), options)
  }

  async #rest(listeners: Listeners, until: number, options: SleepOptions): Promise<void> {
    noUnknown(options, ['name'], 'sleep')
    await this.#wait(listeners, stepName(options.name ?? 'sleep'), until, undefined)
  }

  async #waitFor(
    listeners: Listeners,
    key: string,
    options: WaitForOptions & { readonly schema?: StandardSchemaV1 } = {},
  ): Promise<unknown> {
    noUnknown(options, ['timeout', 'name', 'schema'], 'waitFor')
    const { timeout, schema } = options
    const until = timeout === undefined ? undefined : this.#host.now() + milliseconds(timeout, 'timeout')
    const name = options.name === undefined ? `wait:${jobId(key, 'key')}` : stepName(options.name)
    const memo = await this.#wait(listeners, name, until, jobId(key, 'key'))
    if (memo.signal === undefined) return undefined
    const payload = this.#memos.decode(memo)
    return schema === undefined ? payload : parseWith(schema, payload, `the payload of signal '${key}'`)
  }

  /** Resolves with the step when it is over, now or in a later run. */
  async #wait(
    listeners: Listeners,
    base: string,
    until: number | undefined,
    key: string | undefined,
  ): Promise<StepRecord> {
    const { name, memo } = await this.#found(base)
    if (memo !== undefined && !memo.open) {
      if (key !== undefined && memo.signal !== undefined) this.#hear(key, memo.signal)
      return memo
    }
    const at = this.#host.now()
    const begun = memo ?? { name, value: undefined, open: true, until, signal: undefined, at }
    if (memo === undefined && key === undefined && (until as number) <= at) {
      const over = { ...begun, open: false }
      this.#memos.add(over)
      return over
    }
    if (memo === undefined) this.#memos.add(begun)
    return new Promise((_, reject) => {
      this.#open.set(name, { record: begun, key, fan: undefined, listeners, reject })
      this.#checkSoon()
    })
  }

  #hear(key: string, signal: number): void {
    this.#heard.set(key, Math.max(signal, this.#heard.get(key) ?? 0))
  }

  async #children(
    listeners: Listeners,
    base: string,
    job: AnyJob,
    inputs: Iterable<unknown>,
    options?: ChildrenOptions,
  ): Promise<unknown[]> {
    const { ended, ...fan } = await this.#taken(stepName(base), (name) =>
      this.#fans.take(name, listeners, job, inputs, options),
    )
    return ended === undefined ? this.#waitForChildren(fan) : gathered(ended, options)
  }

  #waitForChildren({ id, record, listeners }: TakenFan): Promise<never> {
    return new Promise((_, reject) => {
      this.#open.set(record.name, { record, key: undefined, fan: id, listeners, reject })
      this.#checkSoon()
    })
  }

  async #all(parts: Parts): Promise<unknown> {
    const keys = Object.keys(parts)
    const given = Object.values(parts) as StepPart[]
    const results: unknown[] = []
    await new Promise<void>((resolve, reject) => {
      let left = given.length
      if (left === 0) return resolve()
      const group = this.#begin(given, (i, settled) => {
        left--
        if ('error' in settled) group.fail ??= () => this.#end(group, () => reject(settled.error))
        else results[i] = settled.value
        if (left > 0) return this.#checkSoon()
        if (group.fail === undefined) this.#end(group, resolve)
        else group.fail()
      })
    })
    return Array.isArray(parts) ? results : Object.fromEntries(keys.map((key, i) => [key, results[i]]))
  }

  /** Who has won is kept as a step: what the others waited for may be over, too, when the handler runs again. */
  async #race(parts: readonly StepPart[]): Promise<unknown> {
    if (!Array.isArray(parts) || parts.length === 0)
      throw invalid('race', parts, 'a list of steps, or of functions that take steps')
    const { name, memo } = await this.#found('race')
    if (memo !== undefined) return this.#raced(parts, this.#memos.decode(memo) as Raced)
    return new Promise((resolve, reject) => {
      const group = this.#begin(parts, (won, settled) => {
        if (!this.#groups.has(group)) return
        this.#end(group, () => {
          const tell = () => ('error' in settled ? reject(settled.error) : resolve(settled.value))
          this.#keepWinner(name, won, group).then(tell, reject)
        })
      })
    })
  }

  /** Before anything is done with it: a run that is lost afterwards must not be followed by one with another winner. */
  #keepWinner(name: string, won: number, { parts }: Group): Promise<void> {
    return this.#busily(async () => {
      const lost = parts.filter((_, i) => i !== won).flatMap(({ names }) => names)
      const heard = Object.fromEntries(this.#heard)
      const done = this.#memos.done(name, { won, lost, heard } satisfies Raced)
      await this.#memos.keep(done, (steps) => this.#host.write(steps))
    })
  }

  /** Those that lost are not taken again, but their names are. */
  async #raced(parts: readonly StepPart[], { won, lost, heard }: Raced): Promise<unknown> {
    const winner = parts[won]
    if (winner === undefined)
      throw invalid('race', parts.length, `parts as before: the one that won was number ${won + 1}`)
    this.#names.keep(lost)
    for (const [key, signal] of Object.entries(heard)) this.#hear(key, signal)
    for (const part of parts) if (isNative(part)) part.catch(() => {})
    return this.#all([winner]).then((results) => (results as unknown[])[0])
  }

  /** Takes parts at the same time, each in its own name. */
  #begin(given: readonly StepPart[], settle: (index: number, settled: Settled) => void): Group {
    const group: Group = { parts: [], fail: undefined }
    this.#groups.add(group)
    for (const [i, one] of given.entries()) {
      const part = new Part(this, group, partOf(this), typeof one === 'function')
      group.parts.push(part)
      const tell = (settled: Settled) => {
        part.end()
        settle(i, settled)
      }
      startPart(part, one).then(
        (value) => tell({ value }),
        (error: unknown) => tell({ error }),
      )
    }
    return group
  }

  /** What its parts still wait for counts no more, and they take no more steps. */
  #end(group: Group, then: () => void): void {
    this.#groups.delete(group)
    for (const part of group.parts) part.end()
    then()
    this.#checkSoon()
  }

  #found(base: string): Promise<{ readonly name: string; readonly memo: StepRecord | undefined }> {
    return this.#taken(base, async (name) => ({ name, memo: await this.#memos.find(name) }))
  }

  /** Names the step at once, in the order of the calls, and counts it among those that run. */
  async #taken<R>(base: string, work: (name: string) => Promise<R>): Promise<R> {
    const part = partOf(this)
    if (this.#suspended || part?.isOver) return new Promise(() => {})
    if (this.#over) throw tooLate(this.#host.jobId)
    mayGoOn(this.#host)
    const within = inside.getStore()
    if (within?.steps === this) throw nested(base, within.name)
    if (this.#host.hasBegun) throw afterBegin(base)
    const name = this.#names.take(base, part)
    for (const each of part?.line ?? []) each?.names.push(name)
    const taken = await this.#busily(async () => {
      const again = this.#fans.hasTold ? await this.#goOn(part) : undefined
      return again === undefined ? { value: await work(name) } : { again }
    })
    return 'again' in taken ? this.#waitForChildren(taken.again) : taken.value
  }

  /** What failed before it came here stays so; unless it is replayed by now, and is to be waited for again. */
  async #goOn(part: Part | undefined): Promise<TakenFan | undefined> {
    const isOver = (group: Group) => !this.#groups.has(group)
    const again = await this.#fans.goOn(({ listeners }) => hasReached(part, listeners, isOver))
    return again && { ...again, listeners: new Set([part]) }
  }

  async #busily<R>(work: () => Promise<R>): Promise<R> {
    this.#busy++
    try {
      return await work()
    } finally {
      this.#busy--
      if (this.#busy === 0) this.#whenQuiet?.()
      this.#checkSoon()
    }
  }

  #context(name: string): StepContext {
    return { key: stepKey(this.#host.jobId, name), check: (value) => void this.#memos.done(name, value) }
  }

  #checkSoon(): void {
    if (this.#checking || this.#over || (this.#open.size === 0 && this.#groups.size === 0)) return
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
    const waits = [...this.#open.values()].filter(({ listeners }) => isWanted(listeners))
    const isWaiting = whoWaits(waits.map(({ listeners }) => listeners))
    const isAtWork = (part: Part) => part.isFunction && !part.isOver && !isWaiting(part)
    const quiet = [...this.#groups].filter(({ parts }) => !parts.some(isAtWork))
    const failed = quiet.find(({ fail }) => fail !== undefined)
    if (failed !== undefined) return failed.fail?.()
    if (quiet.length < this.#groups.size || waits.length === 0) return
    this.#over = true
    this.#suspended = true
    this.#open.clear()
    this.#host.suspend(this.#waitOf(waits))
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
      children: false,
      fans: open.flatMap(({ fan }) => fan ?? []),
    }
  }
}

type Parts = readonly StepPart[] | Readonly<Record<string, StepPart>>

type Settled = { readonly value: unknown } | { readonly error: unknown }

/** What is kept of a race: the part that won, and what others took before: names of steps, and signals by key. */
interface Raced {
  readonly won: number
  readonly lost: readonly string[]
  readonly heard: Readonly<Record<string, number>>
}

function isNative(part: StepPart): part is Promise<unknown> {
  return part instanceof Promise && !(part instanceof WaitPromise)
}

function nested(name: string, within: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step '${name}' was taken inside of step '${within}'; take it beside it, and use step.all for several at a time`,
    { field: 'step', value: name },
  )
}

function afterBegin(name: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `step '${name}' was taken after tx(), whose transaction keeps all else from being written until the job ends; take steps before tx(), or write with step.transaction instead of it`,
    { field: 'step', value: name },
  )
}
