import type { Message } from '../message.js'
import type { PublishResult } from '../publisher.js'

/**
 * What became of the messages of one batch. One that was not taken holds back those of its key that come after it: they
 * must not overtake it, so they are not to be sent, and are `failed` for its reason.
 */
export class Results {
  readonly #messages: readonly Message[]
  readonly #results: (PublishResult | undefined)[]
  readonly #blocked = new Map<string, unknown>()

  constructor(messages: readonly Message[]) {
    this.#messages = messages
    this.#results = messages.map(() => undefined)
  }

  set(index: number, result: PublishResult): void {
    this.#results[index] = result
    const key = this.#messages[index]?.key
    if (result !== 'published' && key !== undefined && !this.#blocked.has(key))
      this.#blocked.set(key, result.error)
  }

  /** An earlier one of its key was not taken. */
  isHeldBack(index: number): boolean {
    const key = this.#messages[index]?.key
    return key !== undefined && this.#blocked.has(key)
  }

  /** `lost`: why nothing is known of those that have no result. Throws it when nothing is known of any. */
  all(lost?: { readonly error: unknown }): PublishResult[] {
    if (lost !== undefined && this.#results.every((result) => result === undefined)) throw lost.error
    return this.#results.map((result, i) => result ?? { status: 'failed', error: this.#reason(i, lost) })
  }

  #reason(index: number, lost: { readonly error: unknown } | undefined): unknown {
    const key = this.#messages[index]?.key
    return key !== undefined && this.#blocked.has(key) ? this.#blocked.get(key) : lost?.error
  }
}
