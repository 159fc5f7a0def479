/**
 * A signal of its own that aborts with another one, until it is let go. AbortSignal.any would do, but what it leaves with the
 * other one stays there for as long as that lives: too long for what is made thousands of times a minute.
 */
export class LinkedSignal {
  readonly #own = new AbortController()
  readonly #other: AbortSignal
  readonly #follow = () => this.#own.abort(this.#other.reason)

  constructor(other: AbortSignal) {
    this.#other = other
    if (other.aborted) this.#follow()
    else other.addEventListener('abort', this.#follow, { once: true })
  }

  get signal(): AbortSignal {
    return this.#own.signal
  }

  abort(reason: unknown): void {
    this.#own.abort(reason)
  }

  letGo(): void {
    this.#other.removeEventListener('abort', this.#follow)
  }
}
