/** What an entry needs to stand in a line: its priority, and links that the line alone writes. */
export interface InLine<E> {
  readonly priority: number
  lane: Lane<E> | undefined
  before: E | undefined
  after: E | undefined
}

interface Lane<E> {
  readonly line: object
  readonly priority: number
  first: E | undefined
  last: E | undefined
}

/**
 * Entries by priority, and within one priority in the order of their arrival. An entry can leave from the
 * middle at no cost, because items are dropped and pushes aborted most when the line is longest.
 */
export class Line<E extends InLine<E>> {
  #size = 0
  /** Never an empty one; the most urgent last, where taking it off is cheap. */
  readonly #lanes: Lane<E>[] = []

  get size(): number {
    return this.#size
  }

  add(entry: E): void {
    const lane = this.#lane(entry.priority)
    entry.lane = lane
    entry.before = lane.last
    if (lane.last === undefined) lane.first = entry
    else lane.last.after = entry
    lane.last = entry
    this.#size++
  }

  /** The oldest of the most urgent. */
  first(): E | undefined {
    return this.#lanes.at(-1)?.first
  }

  take(): E | undefined {
    const entry = this.first()
    if (entry !== undefined) this.remove(entry)
    return entry
  }

  /** False when the entry does not stand in this line. */
  remove(entry: E): boolean {
    const lane = entry.lane
    if (lane?.line !== this) return false
    if (entry.before === undefined) lane.first = entry.after
    else entry.before.after = entry.after
    if (entry.after === undefined) lane.last = entry.before
    else entry.after.before = entry.before
    entry.lane = entry.before = entry.after = undefined
    if (lane.first === undefined) this.#lanes.splice(this.#place(lane.priority), 1)
    this.#size--
    return true
  }

  /** The least urgent first, the oldest of them before the others: the order in which they are given up. */
  *fromLeastUrgent(): Generator<E, void> {
    for (const lane of this.#lanes) {
      for (let entry = lane.first; entry !== undefined; entry = entry.after) yield entry
    }
  }

  #lane(priority: number): Lane<E> {
    const place = this.#place(priority)
    const found = this.#lanes[place]
    if (found?.priority === priority) return found
    const lane = { line: this, priority, first: undefined, last: undefined }
    this.#lanes.splice(place, 0, lane)
    return lane
  }

  /** Where the lane of this priority is, or would be. */
  #place(priority: number): number {
    let low = 0
    let high = this.#lanes.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#lanes[middle] as Lane<E>).priority < priority) low = middle + 1
      else high = middle
    }
    return low
  }
}
