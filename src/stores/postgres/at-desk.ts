import type { Connection } from '../../databases/postgres/connection.js'
import type { DeskOptions } from '../page/desk-options.js'
import type { PagedTables } from '../page/tables.js'
import type { Desk } from './desk.js'
import type { Names } from './names.js'
import type { News } from './news.js'

type Verb<T> = (tables: PagedTables, now: number) => T

/** Takes verbs to the desk, each in a transaction of its own, and tells what came of them. */
export class AtDesk {
  readonly #connection: Connection
  readonly #desk: Desk
  readonly #names: Names
  readonly #news: News

  constructor(connection: Connection, desk: Desk, names: Names, news: News) {
    this.#connection = connection
    this.#desk = desk
    this.#names = names
    this.#news = news
  }

  /** `after`: completes what came of it, before anybody is told. */
  async work<T>(
    verb: Verb<T>,
    options?: DeskOptions,
    after?: (result: T, tables: PagedTables) => void,
  ): Promise<T> {
    const { result, tables } = await this.#connection.scripts((ask, begin) =>
      this.#desk.work(ask, begin, verb, options),
    )
    after?.(result, tables)
    for (const queue of tables.kinds.limitedQueues()) this.#names.limited.add(queue)
    tables.signals.tell()
    for (const signal of tables.news) this.#news.tell(signal)
    return result
  }

  /** Reads only; what has arrived is admitted first. */
  async look<T>(verb: Verb<T>, options?: DeskOptions): Promise<T> {
    const { result, hasArrivals } = await this.#connection.scripts((ask) =>
      this.#desk.look(ask, verb, options),
    )
    if (!hasArrivals) return result
    await this.work(() => {})
    return (await this.#connection.scripts((ask) => this.#desk.look(ask, verb, options))).result
  }
}
