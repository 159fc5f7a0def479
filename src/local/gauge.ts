/**
 * How much the queue holds, and whether that is too much. Full and ready have a distance between them: full at
 * the high mark, or when something did not fit under it; ready again at the low mark, or as far below it as
 * what did not fit needs. So whoever waited for ready can be sure that there is room.
 */
export class Gauge {
  readonly high: number
  readonly #low: number
  readonly #crossed: (full: boolean) => void
  #size = 0
  /** The size at which a full queue is ready again; undefined while it is not full. */
  #readyAt: number | undefined

  constructor(high: number, low: number, crossed: (full: boolean) => void) {
    this.high = high
    this.#low = low
    this.#crossed = crossed
  }

  get size(): number {
    return this.#size
  }

  get isFull(): boolean {
    return this.#readyAt !== undefined
  }

  /** How much has to go before the queue is ready again. */
  get excess(): number {
    return this.#readyAt === undefined ? 0 : this.#size - this.#readyAt
  }

  /** What is larger than the mark itself fits into an empty queue; elsewhere it could never run. */
  fits(size: number, freed = 0): boolean {
    const held = this.#size - freed
    return held === 0 || held + size <= this.high
  }

  add(size: number): void {
    this.#size += size
    if (this.#size >= this.high) this.#fill(this.#low)
  }

  refuse(size: number): void {
    this.#fill(Math.min(this.#low, Math.max(0, this.high - size)))
  }

  /** Crosses nothing by itself: what left may have made room for another. `look` is called when all is done. */
  remove(size: number): void {
    this.#size -= size
  }

  look(): void {
    if (this.#readyAt === undefined || this.#size > this.#readyAt) return
    this.#readyAt = undefined
    this.#crossed(false)
  }

  #fill(readyAt: number): void {
    const wasFull = this.isFull
    this.#readyAt = Math.min(readyAt, this.#readyAt ?? readyAt)
    if (!wasFull) this.#crossed(true)
  }
}
