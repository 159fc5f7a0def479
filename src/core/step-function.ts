import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Child, JobDefinition } from './definition.js'
import type { Duration } from './duration.js'
import type { NodeOptions } from './plan.js'

/** What the function of a step gets. */
export interface StepContext {
  /**
   * The same whenever this step of this job runs, and of no other one: an idempotency key for whoever it talks to, or
   * the id of a job. It is the job's id, a colon and the step's name; colons in the id are doubled.
   */
  readonly key: string
  /** Throws what the step would end with if it gave this: for who must know before that it cannot be kept. */
  readonly check: (value: unknown) => void
}

export interface SleepOptions {
  /** @default 'sleep' */
  readonly name?: string
}

export interface WaitForOptions {
  /** Gives undefined when no signal has come by then. @default no limit */
  readonly timeout?: Duration
  /** @default 'wait:' and the key */
  readonly name?: string
}

export interface ChildrenOptions extends NodeOptions {
  /**
   * What a child means that died or was cancelled. `fail`: the step throws CHILD_FAILED, which no retry of this job
   * would mend; when the child is retried, the job waits for it again. `continue`: the step gives all children with
   * their states. `ignore`: it gives the results of the others. @default 'fail'
   */
  readonly onFailure?: 'fail' | 'continue' | 'ignore'
}

/**
 * A part of `step.all` or `step.race`: a step, or a function that takes steps. What a function does beside its steps
 * is let finish before the job is suspended, so it must not wait for another part. A promise of your own that takes
 * steps is not seen as a part: give a function.
 */
export type StepPart<R = unknown> = PromiseLike<R> | (() => R | PromiseLike<R>)

type PartResult<P> = P extends () => infer R ? Awaited<R> : Awaited<P>

/**
 * Durable parts of a handler. Each has a name; the same name again is numbered (`charge`, `charge#2`), in the order
 * of the calls. A later run of the job, after a retry, a crash, a sleep or a wait, runs the handler from the top,
 * and each step that is done gives at once what it gave before. So a handler has to take its steps in the same
 * order whenever it runs, and what stands between them is done again.
 *
 * A sleep, a wait and children give the slot back and spend no attempt. The handler goes no further: its promise never
 * settles, no `catch` and no `finally` runs, and what it does beside its steps is forgotten. That happens when it
 * awaits one of them and no step of it is running. For several at a time there are `all` and `race`, which know what
 * is awaited no more; what lost a `Promise.race`, or was left behind by a `Promise.all` that threw, still suspends
 * the handler as soon as it does anything but take steps or end. Steps cannot be taken inside of a step's function.
 */
export interface Step {
  /**
   * Runs `fn` and keeps what it gives, up to 1 MiB, before it resolves. What it throws is not kept: a retry runs
   * it again, as does a worker that was lost midway, so that it must be safe to repeat; `key` is for that.
   */
  <R>(name: string, fn: (context: StepContext) => R | PromiseLike<R>): Promise<R>
  /** Goes on after this long, by the store's clock, up to 10 years. */
  sleep(duration: Duration, options?: SleepOptions): Promise<void>
  /** Goes on at this time, by the store's clock; at once when it is over. */
  until(time: Date | number, options?: SleepOptions): Promise<void>
  /**
   * Waits for `mill.signal(key, payload)` and gives the payload; undefined when the time is over. The job gets
   * each signal of a key once, in their order, also those that were sent before and are still kept.
   */
  waitFor<Schema extends StandardSchemaV1>(
    key: string,
    options: WaitForOptions & { readonly schema: Schema; readonly timeout: Duration },
  ): Promise<StandardSchemaV1.InferOutput<Schema> | undefined>
  waitFor<Schema extends StandardSchemaV1>(
    key: string,
    options: WaitForOptions & { readonly schema: Schema },
  ): Promise<StandardSchemaV1.InferOutput<Schema>>
  waitFor<Payload = unknown>(
    key: string,
    options: WaitForOptions & { readonly timeout: Duration },
  ): Promise<Payload | undefined>
  waitFor<Payload = unknown>(key: string, options?: WaitForOptions): Promise<Payload>
  /**
   * Takes several parts at the same time and gives their results in the same shape. When one fails, the others
   * are let finish, but for those that sleep or wait, before it throws the first error; what they wait for holds
   * nothing up any more. Steps that parts take later than at their beginning need names that no other part uses.
   */
  all<const Parts extends readonly StepPart[]>(
    parts: Parts,
  ): Promise<{ -readonly [K in keyof Parts]: PartResult<Parts[K]> }>
  all<const Parts extends Readonly<Record<string, StepPart>>>(
    parts: Parts,
  ): Promise<{ -readonly [K in keyof Parts]: PartResult<Parts[K]> }>
  /**
   * Takes several parts at the same time and gives what the first of them to end gives, or throws. Who has won is
   * kept: it wins whenever the handler runs again. The others are let go: what they wait for holds nothing up any
   * more, a step that is running is let finish, and they take no further ones.
   */
  race<const Parts extends readonly StepPart[]>(parts: Parts): Promise<PartResult<Parts[number]>>
  /**
   * Adds a job for each input, a hundred thousand of them if need be, waits until all of them have ended, and gives
   * their results in the order of the inputs. What it gave stays once the handler has taken another step; until then
   * a child that failed and is replayed is waited for again, and what it gives counts.
   */
  children<I, O, R>(
    name: string,
    job: JobDefinition<I, O, R>,
    inputs: Iterable<NoInfer<I>>,
    options: ChildrenOptions & { readonly onFailure: 'continue' },
  ): Promise<Child<R>[]>
  children<I, O, R>(
    name: string,
    job: JobDefinition<I, O, R>,
    inputs: Iterable<NoInfer<I>>,
    options?: ChildrenOptions,
  ): Promise<R[]>
  /**
   * A step that commits together with what `fn` writes with `tx`: both are there, or neither. `tx` is what the
   * engine has: for SQLite a better-sqlite3 database inside a transaction. Refused where the engine has none, and
   * in a sandbox.
   */
  transaction<R, Tx = unknown>(
    name: string,
    fn: (tx: Tx, context: StepContext) => R | PromiseLike<R>,
  ): Promise<R>
}
