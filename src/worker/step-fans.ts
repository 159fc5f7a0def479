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
  /** The step that added them. */
  readonly record: StepRecord
  /** Who wants to know how they end. */
  readonly listeners: Listeners
}

/**
 * The children that the steps of one run have added, in this run or before. What the handler goes on from must not be
 * otherwise when it runs again, so how they ended is closed before it does, where that can still change: not if all of
 * them completed. A failure that is thrown is not closed at once. Who dies of it waits for the child when that is
 * replayed; who takes another step has gone on from it.
 */
export class StepFans {
  readonly #host: StepHost
  readonly #memos: StepMemos
  /** Those whose failure was thrown. */
  readonly #thrown = new Set<TakenFan>()

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
    const taken = { id: fan.id, record, listeners }
    const ended = await childrenOf(fan, this.#host.readChildren)
    const isGiven = ended !== undefined && (await this.#give(taken, ended, options))
    return { ...taken, ended: isGiven ? ended : undefined }
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

  async #give(
    fan: TakenFan,
    ended: readonly Child[],
    { onFailure = 'fail' }: ChildrenOptions,
  ): Promise<boolean> {
    if (ended.every(({ state }) => state === 'completed')) return true
    if (onFailure !== 'fail') return this.#host.close(fan.id)
    this.#thrown.add(fan)
    return true
  }

  get hasThrown(): boolean {
    return this.#thrown.size > 0
  }

  /** Someone goes on who knows of those: they are closed. Resolves with one that is not over any more, if there is. */
  async goOn(isKnown: (fan: TakenFan) => boolean): Promise<TakenFan | undefined> {
    for (const fan of [...this.#thrown].filter(isKnown)) {
      if (!(await this.#host.close(fan.id))) return fan
      this.#thrown.delete(fan)
    }
    return undefined
  }
}
