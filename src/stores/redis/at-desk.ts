import type { Signal } from '../../core/store.js'
import type { Verb } from '../page/trying.js'
import type { Desk, DeskOptions } from './desk.js'

/** Takes verbs to the desk, and tells this process what came of them. */
export class AtDesk {
  readonly #desk: Desk
  readonly #tell: (signal: Signal) => void
  /** Queues that have limits or groups. One that once had keeps to the desk. */
  readonly limited = new Set<string>()

  constructor(desk: Desk, tell: (signal: Signal) => void) {
    this.#desk = desk
    this.#tell = tell
  }

  async work<T>(verb: Verb<T>, options?: DeskOptions<T>): Promise<T> {
    const { result, tables } = await this.#desk.work(verb, options)
    for (const queue of tables.kinds.limitedQueues()) this.limited.add(queue)
    for (const signal of tables.news) this.#tell(signal)
    return result
  }

  look<T>(verb: Verb<T>, options?: DeskOptions<T>): Promise<T> {
    return this.#desk.look(verb, options)
  }
}
