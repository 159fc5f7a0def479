/** Somebody who appends over a connection of his own, most of it in transactions of his own. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMillraceError } from 'millrace'
import { type EventStore, WrongVersionError } from 'millrace/events'
import type { Journal } from '../journal.js'
import type { Random } from '../random.js'
import type { Book, BookTransaction } from './book.js'
import { Added, type allEvents, Ordered } from './definitions.js'
import { type DoneAppend, type EventsEvent, keysOf, type TriedAppend } from './history.js'
import type { Sabotage } from './recording-log.js'
import { Streams } from './streams.js'

/** Milliseconds at most: between the last append of a transaction and its end, and between two transactions. */
export interface Pace {
  readonly holdMs: number
  readonly pauseMs: number
}

interface Around {
  readonly store: EventStore<(typeof allEvents)[number]>
  readonly book: Book
  readonly journal: Journal<EventsEvent>
  readonly sabotage: Sabotage
  readonly pace: Pace
  readonly stop: AbortSignal
}

/** How long a commit takes, more or less. */
const commitMs = 3

export class Writer {
  readonly #name: string
  readonly #around: Around
  readonly #random: Random
  readonly #streams: Streams
  #count = 0

  constructor(name: string, around: Around) {
    this.#name = name
    this.#around = around
    this.#random = around.sabotage.random.fork(name)
    this.#streams = new Streams(this.#random)
  }

  async run(): Promise<void> {
    const { journal, pace, stop } = this.#around
    while (!stop.aborted) {
      try {
        await (this.#random.chance(0.15) ? this.#alone() : this.#together())
      } catch (error) {
        const code = isMillraceError(error) ? error.code : 'UNKNOWN'
        journal.write({ e: 'error', code, during: 'append', message: String(error) })
        await sleep(50)
      }
      if (pace.pauseMs > 0) await sleep(this.#random.between(0, pace.pauseMs))
    }
  }

  async #alone(): Promise<void> {
    const { journal } = this.#around
    const append = this.#propose()
    journal.write({ e: 'tried', appends: [append] })
    const asked = Date.now()
    const done = await this.#append(append)
    if (done === undefined) journal.write({ e: 'undone', ids: [append.id] })
    else journal.write({ e: 'committed', asked, appends: [done] })
  }

  /** One transaction. When its commit throws, nobody knows what became of it. */
  async #together(): Promise<void> {
    const { journal, book, pace, sabotage } = this.#around
    const appends = Array.from({ length: this.#random.pick([1, 1, 1, 2, 3]) }, () => this.#propose())
    // All wait for streams in one order, so that none waits for another in a circle.
    appends.sort((a, b) => (a.stream < b.stream ? -1 : 1))
    journal.write({ e: 'tried', appends })
    const transaction = await book.begin()
    let isAsked = false
    try {
      const done = await this.#appendAll(appends, transaction)
      await sleep(this.#random.between(0, pace.holdMs))
      sabotage.doom.at('appended')
      if (done.length === 0 || this.#random.chance(0.1)) {
        await transaction.rollback()
        return journal.write({ e: 'undone', ids: appends.map(({ id }) => id) })
      }
      const asked = Date.now()
      isAsked = true
      await this.#commit(transaction)
      journal.write({ e: 'committed', asked, appends: done })
      const refused = appends.filter(({ id }) => !done.some((one) => one.id === id))
      if (refused.length > 0) journal.write({ e: 'undone', ids: refused.map(({ id }) => id) })
      sabotage.doom.at('committed')
    } catch (error) {
      await transaction.rollback().catch(() => {}) // the connection ends with it
      if (!isAsked) journal.write({ e: 'undone', ids: appends.map(({ id }) => id) })
      throw error
    }
  }

  async #appendAll(appends: readonly TriedAppend[], { tx }: BookTransaction): Promise<DoneAppend[]> {
    const all: DoneAppend[] = []
    for (const append of appends) {
      const done = await this.#append(append, tx)
      if (done !== undefined) all.push(done)
    }
    return all
  }

  /** Undefined when the stream was not as expected, which leaves the transaction as it was. */
  async #append(append: TriedAppend, tx?: unknown): Promise<DoneAppend | undefined> {
    const { id, stream, expected } = append
    const events = keysOf(append).map((key) => {
      const define = this.#random.chance(0.3) ? Ordered : Added
      return define({ key, amount: this.#random.integer(1, 1_000) })
    })
    const { store, journal } = this.#around
    try {
      const options = { expected, ...(tx !== undefined && { tx }) }
      const { version, position } = await store.append(stream, events, options)
      this.#streams.learn(stream, version)
      return { id, version, position }
    } catch (error) {
      if (!(error instanceof WrongVersionError)) throw error
      this.#streams.learn(stream, error.actual)
      journal.write({ e: 'refused', id, actual: error.actual })
      return undefined
    }
  }

  #propose(): TriedAppend {
    const id = `${this.#name}.${++this.#count}`
    return { id, ...this.#streams.pick(), size: this.#random.pick([1, 1, 2, 3]) }
  }

  async #commit(transaction: BookTransaction): Promise<void> {
    const { doom, kill } = this.#around.sabotage
    if (doom.strikes('commit-sent')) {
      doom.announce('commit-sent')
      kill(this.#random.between(0, commitMs))
    }
    await transaction.commit()
  }
}
