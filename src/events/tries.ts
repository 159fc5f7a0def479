/** How often the event that stands in the way has been tried; it outlives the runs that try it. */
export class Tries {
  #position = 0
  #count = 0

  /** The number of this try of the event at this position. */
  next(position: number): number {
    this.#count = position === this.#position ? this.#count + 1 : 1
    this.#position = position
    return this.#count
  }
}
