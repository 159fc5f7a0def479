const unknownMs = 1_000
const longestMs = 60_000
/** The weight of the newest measurement: the last dozen decide. */
const share = 0.15

/** How fast a queue has lately got rid of what it holds, to tell a refused caller when to come back. */
export class Pace {
  #since = 0
  #msPerUnit: number | undefined

  /** Work begins after none: the time until now says nothing. */
  begin(now: number): void {
    this.#since = now
  }

  released(units: number, now: number): void {
    const sample = (now - this.#since) / units
    this.#msPerUnit = this.#msPerUnit === undefined ? sample : this.#msPerUnit * (1 - share) + sample * share
    this.#since = now
  }

  /** Whole milliseconds until so many units are gone, from 1 ms to a minute. */
  estimate(units: number): number {
    const ms = this.#msPerUnit === undefined ? unknownMs : this.#msPerUnit * units
    return Math.min(longestMs, Math.max(1, Math.ceil(ms)))
  }
}
