import { laneCount } from '../core/lanes.js'

/** Which slots of a worker are in use, by lane. A running batch uses one; one that is open uses none. */
export class Slots {
  /** A job is running that must run alone, or is about to. */
  alone = false
  readonly #count: number
  readonly #activeByLane = new Array<number>(laneCount).fill(0)
  #busy = 0

  constructor(count: number) {
    this.#count = count
  }

  get activeByLane(): readonly number[] {
    return this.#activeByLane
  }

  get hasFree(): boolean {
    return this.#busy < this.#count
  }

  take(lane: number): void {
    this.#change(lane, 1)
  }

  free(lane: number): void {
    this.#change(lane, -1)
  }

  #change(lane: number, by: 1 | -1): void {
    this.#busy += by
    this.#activeByLane[lane] = (this.#activeByLane[lane] as number) + by
  }
}
