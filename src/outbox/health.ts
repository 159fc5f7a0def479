import { lineOf, type Row } from './store.js'

/**
 * What a relay thinks of its target. When a batch comes back unanswered, nobody knows whether the target is away or one of
 * the rows is poison that spoils the batch. So the next batches are smaller, down to a single row; that one waits, and it
 * counts against it only if the target has taken others since the last time.
 */
export class Health {
  readonly #most: number
  #limit: number
  #failures = 0
  #successes = 0
  /** By line: how many batches had worked when it last spoiled one. Bounded: the oldest are forgotten. */
  readonly #suspects = new Map<string, number>()

  constructor(most: number) {
    this.#most = most
    this.#limit = most
  }

  /** Rows to ask for at a time. */
  get limit(): number {
    return this.#limit
  }

  /** Batches that went wrong, one after the other. */
  get failures(): number {
    return this.#failures
  }

  worked(): void {
    this.#failures = 0
    this.#successes++
    this.#limit = Math.min(this.#most, this.#limit * 2)
  }

  failed(): void {
    this.#failures++
    this.#limit = Math.max(1, Math.floor(this.#limit / 4))
  }

  /** A row that was alone failed; true when the target is well otherwise, so that the row is to blame. */
  blames(row: Row): boolean {
    const line = lineOf(row)
    const before = this.#suspects.get(line)
    this.#suspects.delete(line)
    this.#suspects.set(line, this.#successes)
    if (this.#suspects.size > mostSuspects) this.#suspects.delete([...this.#suspects.keys()][0] as string)
    return before !== undefined && this.#successes > before
  }
}

const mostSuspects = 1_000
