import type { Signal } from '../../core/store.js'
import type { PagedTables } from '../page/tables.js'
import type { Verb } from '../page/trying.js'
import type { Desk, RedisDeskOptions } from './desk.js'

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

  /** `after`: completes what came of it, before anybody is told. */
  async work<T>(
    verb: Verb<T>,
    options?: RedisDeskOptions<T>,
    after?: (result: T, tables: PagedTables) => void,
  ): Promise<T> {
    const { result, tables } = await this.#desk.work(verb, options)
    after?.(result, tables)
    tables.signals.tell()
    for (const queue of tables.kinds.limitedQueues()) this.limited.add(queue)
    for (const signal of tables.news) this.#tell(signal)
    return result
  }
}
