import { backoffDelay } from '../core/backoff.js'
import { isMillraceError } from '../core/errors.js'
import type { Projection } from './define-projection.js'
import type { PartLease } from './part-lease.js'
import { soon } from './read.js'
import { HandlerFailed, Round } from './round.js'
import type { EventRuntime } from './runtime.js'
import { setAside } from './skipped.js'
import { Tries } from './tries.js'
import { Wakes } from './wakes.js'

export interface PartOptions {
  /** Positions that are looked at in one go. */
  readonly batch: number
  readonly poll: number
  /** How often an event that is not set aside is tried before the run ends. @default for ever */
  readonly tries?: number
}

/** How the work on a part came to its end; a part that is given up should be left to others for that long. */
export type PartEnd =
  | { readonly end: 'paused' | 'lost' }
  | { readonly end: 'given-up'; readonly retryIn: number }
  | { readonly end: 'failed'; readonly error: unknown }

/**
 * Works on one part of a projection, event by event in order, for as long as the lease stands. Nothing is passed over: an
 * event whose handler throws is tried again, later and later, unless the projection sets such events aside.
 */
export class PartRun {
  readonly #runtime: EventRuntime
  readonly #projection: Projection
  readonly #lease: PartLease
  readonly #options: PartOptions
  readonly #wakes: Wakes
  readonly #stop = new AbortController()
  readonly #round: Round
  #pausing = false
  #isResting = false
  readonly #tries: Tries
  /** Failures of the log in a row. */
  #troubles = 0
  #pendingLooks = 0
  #keptAt = Number.NEGATIVE_INFINITY

  constructor(
    runtime: EventRuntime,
    projection: Projection,
    lease: PartLease,
    options: PartOptions,
    tries = new Tries(),
  ) {
    this.#runtime = runtime
    this.#projection = projection
    this.#lease = lease
    this.#options = options
    this.#tries = tries
    this.#wakes = new Wakes(runtime.clock)
    const signal = AbortSignal.any([lease.signal, this.#stop.signal])
    this.#round = new Round(runtime, projection, lease, signal, options.batch)
    signal.addEventListener('abort', () => this.#wakes.wake())
  }

  /** Everything up to here has been looked at. */
  get seen(): number {
    return this.#round.seen
  }

  /** Something went wrong, and it waits before it tries again. */
  get isResting(): boolean {
    return this.#isResting
  }

  /** There may be more to do. */
  wake(): void {
    if (!this.#isResting) this.#wakes.wake()
  }

  /** Ends after what it is at. */
  pause(): void {
    this.#pausing = true
    this.#wakes.wake()
  }

  /** Ends now: the handler's signal aborts, and what it has written is undone. */
  abort(reason: unknown): void {
    this.#pausing = true
    this.#stop.abort(reason)
  }

  /** Works until it is paused or the lease is lost. */
  async run(): Promise<PartEnd> {
    while (!this.#pausing && !this.#lease.signal.aborted) {
      const end = await this.#next().catch((error: unknown) => this.#failed(error))
      if (end !== undefined) return end
    }
    return { end: this.#lease.signal.aborted ? 'lost' : 'paused' }
  }

  /** Works until everything up to this position is done. Rejects when a handler throws and the event is not set aside. */
  async upTo(position: number): Promise<void> {
    while (this.#round.seen < position) {
      const report = await this.#round.go(position).catch((error: unknown) => this.#setAsideAtOnce(error))
      if (report === undefined || report.more || this.#round.seen >= position) continue
      await this.#wakes.next(report.pending ? soon(1) : this.#options.poll)
    }
    await this.#round.keep()
  }

  async #next(): Promise<undefined> {
    const { more, pending, handled } = await this.#round.go()
    this.#troubles = 0
    this.#pendingLooks = pending && handled === 0 ? this.#pendingLooks + 1 : 0
    if (more || this.#pausing) return
    const { poll } = this.#options
    if (pending) await this.#wakes.next(Math.min(poll, soon(this.#pendingLooks)))
    else await this.#wakes.next(this.#round.isKept ? poll : Math.min(poll, keepMs))
    const { clock } = this.#runtime
    if (this.#round.isKept || clock.monotonic() - this.#keptAt < keepMs) return
    await this.#round.keep()
    this.#keptAt = clock.monotonic()
  }

  async #failed(error: unknown): Promise<PartEnd | undefined> {
    if (this.#lease.signal.aborted) return { end: 'lost' }
    if (this.#stop.signal.aborted) return { end: 'paused' }
    try {
      if (error instanceof HandlerFailed) return await this.#stuck(error)
      await this.#trouble(error)
    } catch (next) {
      if (this.#lease.signal.aborted) return { end: 'lost' }
      await this.#trouble(next).catch(() => {})
    }
    return undefined
  }

  async #stuck(failed: HandlerFailed): Promise<PartEnd | undefined> {
    const tries = await this.#triedOrSetAside(failed)
    if (tries === undefined) return undefined
    const { event, cause } = failed
    const { name, backoff } = this.#projection
    const retryIn = backoffDelay(backoff, { attempt: tries, previous: 0, error: cause }, Math.random)
    const isEnough = this.#isEnough(tries, cause)
    const { id, type, stream, version, position } = event
    this.#runtime.listeners.emit('error', {
      error: cause,
      during: `projection '${name}'`,
      projection: name,
      event: { id, type, stream, version, position },
      tries,
      retryIn: isEnough ? undefined : retryIn,
    })
    if (isEnough) return { end: 'failed', error: cause }
    // A worker of a newer deploy knows more: it gets the part.
    if (isUnknown(cause)) return { end: 'given-up', retryIn: Math.max(retryIn, this.#options.poll) }
    await this.#rest(retryIn)
    return undefined
  }

  #isEnough(tries: number, cause: unknown): boolean {
    const { tries: most } = this.#options
    if (most === undefined) return false
    return isUnknown(cause) || (this.#projection.skip === undefined && tries >= most)
  }

  /** Nobody waits between the tries of an event that is set aside in the end. */
  async #setAsideAtOnce(error: unknown): Promise<undefined> {
    if (!(error instanceof HandlerFailed)) throw error
    const tries = await this.#triedOrSetAside(error)
    if (tries !== undefined && (this.#projection.skip === undefined || isUnknown(error.cause))) throw error
  }

  /**
   * How often it was tried by now; undefined when it does not stand in the way: it was set aside, or others come first. The
   * first event of a batch that fails is tried alone, after those before it are done.
   */
  async #triedOrSetAside({ event, cause, before }: HandlerFailed): Promise<number | undefined> {
    if (before > this.#lease.position) {
      this.#round.onlyUpTo(before)
      return undefined
    }
    const tries = this.#tries.next(event.position)
    const { skip } = this.#projection
    // What only a newer deploy knows is never set aside.
    if (skip === undefined || tries < skip.after || isUnknown(cause)) return tries
    await setAside(this.#runtime, this.#projection, this.#lease, event, cause)
    this.#round.passed(event.position)
    return undefined
  }

  /** The log did not do as it should: once it answers, it tells how far this has come. */
  async #trouble(error: unknown): Promise<void> {
    const retryIn = Math.min(longestTrouble, firstTrouble * 2 ** Math.min(this.#troubles++, 20))
    const { name } = this.#projection
    this.#runtime.listeners.emit('error', {
      error,
      during: `projection '${name}'`,
      projection: name,
      retryIn,
    })
    await this.#rest(retryIn)
    if (this.#pausing) return
    await this.#lease.reread()
    this.#round.passed(this.#lease.position)
  }

  /** News does not shorten it. */
  async #rest(ms: number): Promise<void> {
    this.#isResting = true
    if (!this.#pausing) await this.#wakes.fromNow(ms)
    this.#isResting = false
  }
}

function isUnknown(cause: unknown): boolean {
  return isMillraceError(cause, 'EVENT_UNKNOWN')
}

/** What was looked at and is nothing to the projection is written down no more often than this. */
const keepMs = 100
const firstTrouble = 50
const longestTrouble = 5_000
