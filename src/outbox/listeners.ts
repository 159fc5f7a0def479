import { attempt } from '../system/attempt.js'
import type { Kind } from './store.js'

/** Those who want to know that rows of a kind may have come; undefined is any kind. */
export class Listeners {
  readonly #listeners = new Set<(kind: Kind | undefined) => void>()

  add(listener: (kind: Kind | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tell(kinds: Iterable<Kind | undefined>): void {
    for (const kind of kinds) for (const listener of this.#listeners) attempt(listener, kind)
  }
}
