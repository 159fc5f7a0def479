import { MillraceError } from '../core/errors.js'
import { newToken } from '../system/ids.js'
import type { EventRuntime } from './runtime.js'

export interface PartRef {
  readonly name: string
  readonly generation: number
  readonly part: number
}

/**
 * The right to work on one part of a projection, renewed until it is released or lost. Then `signal` aborts; what is
 * written under it is refused by the log, whether anybody has noticed or not.
 */
export class PartLease {
  readonly ref: PartRef
  readonly #runtime: EventRuntime
  readonly #request: PartRef & { readonly token: string; readonly owner: string; readonly lease: number }
  readonly #lost = new AbortController()
  #position: number
  #renewedAt: number
  #cancelTimer: (() => void) | undefined

  /** Undefined while another holds it. */
  static async take(
    runtime: EventRuntime,
    ref: PartRef,
    owner: string,
    lease: number,
  ): Promise<PartLease | undefined> {
    const { name, generation, part } = ref
    const request = { name, generation, part, token: newToken(), owner, lease }
    const askedAt = runtime.clock.monotonic()
    const held = await runtime.log.hold(request)
    return held && new PartLease(runtime, ref, request, held.position, askedAt)
  }

  private constructor(
    runtime: EventRuntime,
    ref: PartRef,
    request: PartRef & { readonly token: string; readonly owner: string; readonly lease: number },
    position: number,
    askedAt: number,
  ) {
    this.#runtime = runtime
    this.ref = ref
    this.#request = request
    this.#position = position
    this.#renewedAt = askedAt
    this.#renewLater()
  }

  /** The checkpoint: everything up to here is done. */
  get position(): number {
    return this.#position
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /**
   * How long a batch may take: so that it ends well within the lease even where nothing can be renewed meanwhile, and, where
   * there is one writer at a time, so that others have their turn.
   */
  get slice(): number {
    const third = this.#request.lease / 3
    return this.#runtime.log.capabilities.synchronous ? Math.min(third, turnMs) : third
  }

  /** Moves the checkpoint; with `tx` it has moved when that commits, which `moved` tells. Throws when it was lost. */
  async advance(position: number, tx?: unknown): Promise<void> {
    await this.#write(position, false, tx)
    if (tx === undefined) this.#position = position
  }

  moved(position: number): void {
    this.#position = position
  }

  /** Reads the checkpoint anew: a commit whose answer was lost may have moved it. Throws when it was lost. */
  async reread(): Promise<void> {
    await this.#renew()
    this.#lost.signal.throwIfAborted()
  }

  /** Gives it back, at `position`. Nothing goes wrong when it is another's already. */
  async release(position = this.#position): Promise<void> {
    this.drop()
    await this.#write(position, true, undefined).catch((error: unknown) => {
      if (!this.#lost.signal.aborted) throw error
    })
  }

  /** Gives it back in a transaction. Throws when it was lost. */
  async releaseIn(tx: unknown, position: number): Promise<void> {
    await this.#write(position, true, tx)
  }

  /** Renews it no more. */
  drop(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  async #write(position: number, done: boolean, tx: unknown): Promise<void> {
    const { name, generation, part, token } = this.#request
    const request = { name, generation, part, token, position, done }
    if ((await this.#runtime.log.advance(request, tx)) === 'advanced') return
    throw this.#lose()
  }

  #renewLater(): void {
    this.#cancelTimer = this.#runtime.clock.after(this.#request.lease / 3, () => {
      const renewing = this.#cancelTimer
      void this.#renew()
        .catch((error: unknown) => this.#notRenewed(error))
        .then(() => {
          if (this.#cancelTimer === renewing && !this.#lost.signal.aborted) this.#renewLater()
        })
    })
  }

  async #renew(): Promise<void> {
    const askedAt = this.#runtime.clock.monotonic()
    // After another has been at work, what was read before must not be written, whoever has the lease now.
    const held = await this.#runtime.log.hold({ ...this.#request, renewal: true })
    if (held === undefined) {
      this.#lose()
      return
    }
    this.#renewedAt = askedAt
    this.#position = Math.max(this.#position, held.position)
  }

  /** Past the lease without an answer, another may be at work. */
  #notRenewed(error: unknown): void {
    if (this.#cancelTimer === undefined) return
    this.#runtime.listeners.emit('error', {
      error,
      during: `lease of projection '${this.ref.name}'`,
      projection: this.ref.name,
    })
    if (this.#runtime.clock.monotonic() - this.#renewedAt >= this.#request.lease) this.#lose()
  }

  #lose(): MillraceError {
    const { name, generation, part } = this.ref
    const error = new MillraceError(
      'LEASE_LOST',
      `the lease of part ${part} of projection '${name}', generation ${generation}, was lost; another worker goes on`,
    )
    this.drop()
    this.#lost.abort(error)
    return error
  }
}

const turnMs = 500
