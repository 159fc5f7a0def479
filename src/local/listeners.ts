import { attempt } from '../system/attempt.js'

/**
 * Listeners that hear every event in the order in which things happened: a listener that is told `ready` may
 * fill the queue, and the others must hear of that `ready` before they hear of this `full`.
 */
export class Listeners<Events> {
  readonly #sets = new Map<keyof Events, Set<(event: never) => void>>()
  readonly #due: (() => void)[] = []
  #telling = false

  on<E extends keyof Events>(name: E, listener: (event: Events[E]) => void): () => void {
    const set = this.#sets.get(name) ?? new Set()
    this.#sets.set(name, set)
    // A wrapper of its own, so that one function heard twice can be taken off once.
    const own = (event: Events[E]) => listener(event)
    set.add(own)
    return () => set.delete(own)
  }

  emit<E extends keyof Events>(name: E, event: Events[E]): void {
    const set = this.#sets.get(name) as Set<(event: Events[E]) => void> | undefined
    if (set === undefined || set.size === 0) return
    this.#due.push(() => {
      for (const listener of [...set]) attempt(listener, event)
    })
  }

  /** Tells what was emitted. A call from inside a listener leaves it to the one under way. */
  tell(): void {
    if (this.#telling) return
    this.#telling = true
    for (let tell = this.#due.shift(); tell !== undefined; tell = this.#due.shift()) tell()
    this.#telling = false
  }
}
