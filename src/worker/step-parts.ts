import { AsyncLocalStorage } from 'node:async_hooks'
import type { StepPart } from '../core/step-function.js'

/** A part of `step.all` or `step.race`. What it has taken in turn ends with it. */
export class Part {
  /** The steps of its run. */
  readonly steps: object
  readonly parent: Part | undefined
  readonly isFunction: boolean
  /** Those that were taken together with it are in the same. */
  readonly group: Group
  /** Names of steps that were taken in it. */
  readonly names: string[] = []
  /** Its function has not come to its first wait: what it takes until then is taken in the order of the parts. */
  isStarting = true
  #isOver = false

  constructor(steps: object, group: Group, parent: Part | undefined, isFunction: boolean) {
    this.steps = steps
    this.group = group
    this.parent = parent
    this.isFunction = isFunction
  }

  /** Whether time decides which of them comes first. */
  goesBeside(other: Part): boolean {
    const others = other.line
    return this.line.some((one) => others.some((each) => one !== each && one?.group === each?.group))
  }

  /** It has settled, or nobody wants to know any more what it gives. */
  end(): void {
    this.#isOver = true
  }

  get isOver(): boolean {
    return this.#isOver || this.parent?.isOver === true
  }

  /** Itself and all that it is a part of; undefined is the handler. */
  get line(): (Part | undefined)[] {
    return [this, ...(this.parent?.line ?? [undefined])]
  }
}

/** Parts that were taken together. */
export interface Group {
  readonly parts: Part[]
  /** Set when one of them has failed: tells it, once the others have done what they can. */
  fail: (() => void) | undefined
}

/** Set inside a part and in all that it sets off: also in runs of other jobs. */
const current = new AsyncLocalStorage<Part>()

/** The part that is speaking; undefined when it is the handler itself. */
export function partOf(steps: object): Part | undefined {
  const part = current.getStore()
  return part?.steps === steps ? part : undefined
}

/** What a part gives; a promise is listened to in its name. */
export function startPart(part: Part, given: StepPart): Promise<unknown> {
  const begun = current.run(part, async () => (typeof given === 'function' ? given() : given))
  part.isStarting = false
  return begun
}

/** Who listens to a sleep or a wait: parts, or the handler itself, which is undefined. */
export type Listeners = Set<Part | undefined>

/** Whether someone wants to know how it ends. */
export function isWanted(listeners: Listeners): boolean {
  return [...listeners].some(isLive)
}

/**
 * Tells which parts may be waiting: they, or parts of theirs, listen to what is open, or what they are a part of
 * does and they may depend on that. Any other part that has not settled is at work.
 */
export function whoWaits(open: Iterable<Listeners>): (part: Part) => boolean {
  const listening = new Set<Part | undefined>()
  for (const listeners of open) for (const one of listeners) if (isLive(one)) listening.add(one)
  const above = new Set<Part | undefined>()
  for (const one of listening) for (const each of one?.line ?? []) above.add(each)
  return (part) => above.has(part) || part.line.some((each) => listening.has(each))
}

/**
 * Whether someone who takes a step can know what these were told: it is one of them, or within one of them, or what
 * they are a part of is over and has told it.
 */
export function hasReached(
  taker: Part | undefined,
  listeners: Listeners,
  isOver: (group: Group) => boolean,
): boolean {
  const above = taker?.line ?? [undefined]
  const reaches = (one: Part | undefined): boolean =>
    above.includes(one) || (one !== undefined && isOver(one.group) && reaches(one.parent))
  return [...listeners].some(reaches)
}

function isLive(listener: Part | undefined): boolean {
  return listener === undefined || !listener.isOver
}

/** What a sleep or a wait gives. Only one that someone listens to suspends a run, so it tells when one does. */
export class WaitPromise<R> extends Promise<R> {
  #heard: (() => void) | undefined

  static of<R>(wait: Promise<R>, heard: () => void): WaitPromise<R> {
    const promise = new WaitPromise<R>((resolve, reject) => {
      wait.then(resolve, reject)
    })
    // It may be told of a stop before the handler comes to it: that is no error of its own.
    promise.catch(() => {})
    promise.#heard = heard
    return promise
  }

  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise that tells who listens
  override then<A = R, B = never>(
    fulfilled?: ((value: R) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#heard?.()
    return super.then(fulfilled, rejected)
  }
}
