import type { Signal } from '../../core/store.js'
import { attempt } from '../../system/attempt.js'

/** Who hears of what this process did, and of what it was told that others did. */
export class Subscribers {
  readonly #listeners = new Set<(signal: Signal) => void>()

  subscribe(listener: (signal: Signal) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tell(signal: Signal): void {
    for (const listener of this.#listeners) attempt(listener, signal)
  }
}
