import { MillraceError } from '../core/errors.js'
import { LinkedSignal } from '../system/linked-signal.js'
import type { Projection, ProjectionContext } from './define-projection.js'
import type { StoredEvent } from './log.js'
import type { PartLease } from './part-lease.js'
import { isRefusal } from './refusal.js'
import type { EventRuntime } from './runtime.js'
import { tableOf } from './table.js'
import { isThenable } from './thenable.js'

/** A handler threw, or the event could not be read. */
export class HandlerFailed extends Error {
  readonly event: StoredEvent
  /** Everything up to here was handled before it. */
  readonly before: number

  constructor(event: StoredEvent, cause: unknown, before: number) {
    super(`event ${event.id} could not be handled`, { cause })
    this.event = event
    this.before = before
  }
}

export interface RoundReport {
  /** There is more to do at once. */
  readonly more: boolean
  /** A writer is at work on what comes next. */
  readonly pending: boolean
  readonly handled: number
}

/** One batch after the other: looked for, handled, and the checkpoint moved, with the writes or after them. */
export class Round {
  readonly #runtime: EventRuntime
  readonly #projection: Projection
  readonly #lease: PartLease
  readonly #signal: AbortSignal
  readonly #batch: number
  readonly #table: string
  #seen: number
  #limit = Number.POSITIVE_INFINITY
  /** Up to here events are handled one by one: the server did not say which of them it refused. */
  #oneAtATime = 0

  constructor(
    runtime: EventRuntime,
    projection: Projection,
    lease: PartLease,
    signal: AbortSignal,
    batch: number,
  ) {
    this.#runtime = runtime
    this.#projection = projection
    this.#lease = lease
    this.#signal = signal
    this.#batch = batch
    this.#table = tableOf(projection.name, lease.ref.generation)
    this.#seen = lease.position
  }

  get seen(): number {
    return this.#seen
  }

  /** The checkpoint is where it has looked up to. */
  get isKept(): boolean {
    return this.#seen === this.#lease.position
  }

  async keep(): Promise<void> {
    if (!this.isKept) await this.#lease.advance(this.#seen)
  }

  /** The next round goes no further. */
  onlyUpTo(position: number): void {
    this.#limit = position
  }

  /** Everything up to here is done, or to be left. */
  passed(position: number): void {
    this.#seen = position
  }

  async go(position = Number.POSITIVE_INFINITY): Promise<RoundReport> {
    const limit = Math.min(position, this.#limit)
    this.#limit = Number.POSITIVE_INFINITY
    this.#signal.throwIfAborted()
    const { parts, events: wanted } = this.#projection
    const page = await this.#runtime.log.all({
      after: this.#seen,
      limit: this.#batch,
      types: wanted.map(({ type }) => type),
      share: parts === 1 ? undefined : { part: this.#lease.ref.part, of: parts },
    })
    const until = this.#narrowed(page.events, limit)
    const events = page.events.filter(({ position }) => position <= until)
    const through = Math.min(page.through, until)
    const done = events.length === 0 ? through : await this.#handle(events, through)
    this.#seen = done
    return { more: page.more || done < page.through, pending: page.pending, handled: events.length }
  }

  #narrowed([first]: readonly StoredEvent[], limit: number): number {
    return first !== undefined && first.position <= this.#oneAtATime ? Math.min(first.position, limit) : limit
  }

  #handle(events: readonly StoredEvent[], through: number): Promise<number> {
    return this.#projection.transactional ? this.#together(events, through) : this.#oneByOne(events, through)
  }

  /** Writes and checkpoint commit together. */
  async #together(events: readonly StoredEvent[], through: number): Promise<number> {
    const { log, clock } = this.#runtime
    const transaction = await log.begin()
    const begunAt = clock.monotonic()
    try {
      const done = await this.#callAll(events, through, <Tx>() => transaction.tx as Tx)
      await this.#lease.advance(done, transaction.tx)
      await transaction.commit()
      this.#lease.moved(done)
      if (log.capabilities.synchronous && clock.monotonic() - begunAt > longMs) await this.#letOthersWrite()
      return done
    } catch (error) {
      await transaction.rollback()
      if (isRefusal(error)) return this.#blame(events, error)
      throw error
    }
  }

  /** Other processes try again every so often, and have no place in a line. */
  #letOthersWrite(): Promise<void> {
    return new Promise((resolve) => this.#runtime.clock.after(turnMs, resolve))
  }

  /** What handlers wrote was refused only when the checkpoint moved or at the commit. */
  #blame(events: readonly StoredEvent[], error: unknown): number {
    const [first, last] = [events[0] as StoredEvent, events.at(-1) as StoredEvent]
    if (first === last) throw new HandlerFailed(first, error, this.#lease.position)
    this.#oneAtATime = last.position
    return this.#seen
  }

  /** Handled, then written down: what is handled when the process dies is handled again. */
  async #oneByOne(events: readonly StoredEvent[], through: number): Promise<number> {
    try {
      const done = await this.#callAll(events, through, () => {
        throw notTransactional(this.#projection.name)
      })
      await this.#lease.advance(done)
      return done
    } catch (error) {
      if (error instanceof HandlerFailed && error.before > this.#lease.position) {
        await this.#lease.advance(error.before)
        this.#seen = error.before
      }
      throw error
    }
  }

  /** How far it came: as far as it looked, or less where that takes too long for one lease. */
  async #callAll(
    events: readonly StoredEvent[],
    through: number,
    tx: ProjectionContext['tx'],
  ): Promise<number> {
    const { clock } = this.#runtime
    const until = clock.monotonic() + this.#lease.slice
    const { generation } = this.#lease.ref
    const linked = new LinkedSignal(this.#signal)
    const context = { tx, table: this.#table, generation, signal: linked.signal }
    const last = events.at(-1)
    let before = this.#lease.position
    try {
      for (const event of events) {
        this.#signal.throwIfAborted()
        try {
          await this.#call(event, context, linked)
        } catch (cause) {
          this.#signal.throwIfAborted()
          throw new HandlerFailed(event, cause, before)
        }
        before = event.position
        if (event !== last && clock.monotonic() >= until) return before
      }
      return through
    } finally {
      linked.letGo()
    }
  }

  async #call(stored: StoredEvent, context: ProjectionContext, linked: LinkedSignal): Promise<void> {
    const event = this.#runtime.catalogue.decode(stored)
    const answer = this.#projection.on[stored.type]?.(event as never, context)
    if (!isThenable(answer)) return
    const { timeout, name } = this.#projection
    const cancel =
      timeout > 0 && this.#runtime.clock.after(timeout, () => linked.abort(tooLate(name, timeout)))
    try {
      await this.#unlessAbandoned(Promise.resolve(answer), context.signal)
    } finally {
      if (cancel) cancel()
    }
    context.signal.throwIfAborted()
  }

  /** One that does not heed its signal is left alone after a while. */
  async #unlessAbandoned(answer: Promise<unknown>, signal: AbortSignal): Promise<void> {
    let cancel: (() => void) | undefined
    let leave = (): void => {}
    const abandoned = new Promise<void>((resolve) => {
      leave = () => {
        cancel = this.#runtime.clock.after(abandonMs, resolve)
      }
    })
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave)
    try {
      await Promise.race([answer, abandoned])
    } finally {
      cancel?.()
      signal.removeEventListener('abort', leave)
    }
  }
}

const abandonMs = 5_000
/** Where there is one writer at a time, a batch that took longer than this is followed by a pause for others. */
const longMs = 20
const turnMs = 30

function tooLate(projection: string, timeout: number): MillraceError {
  return new MillraceError(
    'JOB_TIMEOUT',
    `a handler of projection '${projection}' took longer than its timeout of ${timeout} ms`,
    { field: 'timeout', limit: timeout },
  )
}

function notTransactional(projection: string): MillraceError {
  return new MillraceError(
    'INVALID_OPTION',
    `projection '${projection}' has transactional: false, so its handlers have no transaction`,
    { field: 'transactional' },
  )
}
