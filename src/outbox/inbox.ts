import { bounds } from '../core/bounds.js'
import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { name, noUnknown } from '../core/options.js'
import { systemClock } from '../system/clock.js'
import { Opening } from '../system/opening.js'
import { address } from './address.js'
import type { OutboxStore } from './store.js'
import { checkStore, storeOf } from './store-url.js'

export interface InboxOptions {
  /**
   * Where the consumer's own data is: `'sqlite:app.db'`, `'postgres://…'`, or a store such as `postgresOutbox({ pool })`,
   * which is closed with the inbox.
   */
  readonly store: string | OutboxStore
  /** Each has an inbox of its own: two consumers may both get a message. */
  readonly consumer: string
  /** For how long a message is known. It must outlast every way in which it could come once more. @default '30d' */
  readonly remember?: Duration
}

/** `first`: the work was done. Otherwise it had been done before. */
export type Once<R> = { readonly first: true; readonly result: R } | { readonly first: false }

/**
 * For consumers of messages that may come more than once: what is done for a message is done once, because a note of it
 * commits with what was done.
 */
export class Inbox {
  readonly #given: string | OutboxStore
  readonly #consumer: string
  readonly #remember: number
  readonly #opening = new Opening(() => this.#open())
  #store: OutboxStore | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: InboxOptions) {
    noUnknown(options, ['store', 'consumer', 'remember'], 'Inbox')
    checkStore(options.store)
    this.#given = options.store
    this.#consumer = name(options.consumer, 'consumer')
    this.#remember = milliseconds(options.remember ?? '30d', 'remember')
  }

  /** Makes the tables if they are not there. Before the first message. */
  open(): Promise<void> {
    return this.#opening.done()
  }

  /**
   * Does the work unless it has been done for this message, in the caller's transaction: a message that comes while another
   * transaction is at it waits for that one's end. Does not catch what the work throws: the transaction must not commit
   * then. On SQLite, inside a synchronous transaction, the work has been done when the call returns.
   */
  once<R>(tx: unknown, messageId: string, work: () => R): Promise<Once<Awaited<R>>> {
    const noted = this.#opened().receive(this.#consumer, address(messageId, 'messageId'), tx)
    return noted instanceof Promise ? noted.then((first) => doOnce(first, work)) : doOnce(noted, work)
  }

  async close(): Promise<void> {
    await this.#opening.over()
    clearTimeout(this.#timer)
    const store = this.#store
    this.#store = undefined
    this.#opening.forget()
    await store?.close()
  }

  async #open(): Promise<void> {
    const store = await storeOf(this.#given, systemClock)
    await store.open()
    this.#store = store
    this.#forgetLater(firstMs)
  }

  #forgetLater(ms: number): void {
    this.#timer = setTimeout(() => void this.#forget(), ms)
    this.#timer.unref()
  }

  /** A bounded number at a time. What goes wrong is tried again. */
  async #forget(): Promise<void> {
    const received = { consumer: this.#consumer, keep: this.#remember }
    const request = { history: undefined, aside: undefined, received, limit: bounds.batch }
    const more = await this.#store?.prune(request).catch(() => false)
    if (this.#store !== undefined) this.#forgetLater(more === true ? soonMs : everyMs)
  }

  #opened(): OutboxStore {
    if (this.#store !== undefined) return this.#store
    throw new MillraceError('CLOSED', 'the inbox is not open: await inbox.open() before the first message')
  }
}

const firstMs = 1_000
const soonMs = 50
const everyMs = 60_000

/** Not asynchronous before the work: that would be after the end of a synchronous transaction. */
function doOnce<R>(first: boolean, work: () => R): Promise<Once<Awaited<R>>> {
  if (!first) return Promise.resolve({ first })
  const result = work()
  return Promise.resolve(result).then((done) => ({ first, result: done }))
}
