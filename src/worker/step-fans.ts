import type { AnyJob, Child } from '../core/definition.js'
import type { StepRecord } from '../core/step.js'
import type { ChildrenOptions } from '../core/step-function.js'
import { newId } from '../system/ids.js'
import { batchesOf, checkChildren, childrenOf, type Fan, fanOf } from './step-children.js'
import { mayGoOn, type StepHost } from './step-host.js'
import type { StepMemos } from './step-memos.js'
import type { Listeners } from './step-parts.js'

/** Children of one step. */
export interface TakenFan {
  readonly id: string
  /** How often any of the job's had been replayed before their ends were read. */
  readonly replays: number
  /** The step that added them. */
  readonly record: StepRecord
  /** Who wants to know how they end. */
  readonly listeners: Listeners
}

/**
 * The children that the steps of one run have added, in this run or before. What the handler goes on from must not be
 * otherwise when it runs again, so how they ended is closed before that, where it can still change: not if all of them
 * completed. Who takes another step has gone on from it; who dies finds what a replay has changed.
 */
export class StepFans {
  readonly #host: StepHost
  readonly #memos: StepMemos
  /** Those with a failure that the handler was told of. */
  readonly #told = new Set<TakenFan>()

  constructor(host: StepHost, memos: StepMemos) {
    this.#host = host
    this.#memos = memos
  }

  /** Adds what is missing of them; `ended` is undefined while some have not. */
  async take(
    name: string,
    listeners: Listeners,
    job: AnyJob,
    inputs: Iterable<unknown>,
    options: ChildrenOptions = {},
  ): Promise<TakenFan & { readonly ended: Child[] | undefined }> {
    const memo = await this.#memos.find(name)
    const begun = memo && fanOf(name, this.#memos.decode(memo))
    const isComplete = memo !== undefined && begun?.count !== undefined
    const record = isComplete ? memo : await this.#add(name, begun, job, inputs, options)
    const fan = fanOf(name, this.#memos.decode(record))
    let replays = 0
    let ended = await childrenOf(fan, this.#host.readChildren)
    if (ended?.some(hasFailed)) {
      replays = await this.#host.replays()
      ended = await childrenOf(fan, this.#host.readChildren)
    }
    const taken = { id: fan.id, replays, record, listeners }
    if (ended?.some(hasFailed)) this.#told.add(taken)
    return { ...taken, ended }
  }

  /** Each batch is written together with what is known of the step by then. */
  async #add(
    name: string,
    begun: Fan | undefined,
    job: AnyJob,
    inputs: Iterable<unknown>,
    options: ChildrenOptions,
  ): Promise<StepRecord> {
    checkChildren(job, options)
    mayGoOn(this.#host)
    const id = begun?.id ?? newId(this.#host.now())
    let done: StepRecord | undefined
    for (const { fan, ...batch } of batchesOf(name, id, inputs)) {
      done = this.#memos.done(name, fan)
      await this.#memos.keep(done, (steps) =>
        this.#host.addChildren({ ...batch, fan: id, job, options, steps }),
      )
    }
    return done as StepRecord
  }

  /** Whether the handler was told of a failure that can still change. */
  get hasTold(): boolean {
    return this.#told.size > 0
  }

  /** Someone goes on who knows of these: they are closed. Resolves with one that is not as it was any more, if there is. */
  async goOn(isKnown: (fan: TakenFan) => boolean): Promise<TakenFan | undefined> {
    for (const fan of [...this.#told].filter(isKnown)) {
      if (!(await this.#host.close({ fan: fan.id, replays: fan.replays }))) return fan
      this.#told.delete(fan)
    }
    return undefined
  }
}

function hasFailed({ state }: Child): boolean {
  return state !== 'completed'
}
