/** Which stream a writer appends to next, and what it expects of it. */
import type { Expected } from 'millrace/events'
import type { Random } from '../random.js'

const hot = 4
const cold = 200
/** For so long all writers want to be the first of the same new stream. */
const raceMs = 400

export class Streams {
  readonly #random: Random
  /** As this writer knows them, which may be wrong by now. */
  readonly #versions = new Map<string, number>()

  constructor(random: Random) {
    this.#random = random
  }

  pick(): { readonly stream: string; readonly expected: Expected } {
    const random = this.#random
    if (random.chance(0.05)) return { stream: `race-${Math.floor(Date.now() / raceMs)}`, expected: 'none' }
    if (random.chance(0.15)) {
      const stream = `hot-${random.integer(0, hot - 1)}`
      return { stream, expected: this.#versions.get(stream) ?? 'any' }
    }
    const stream = `cold-${random.integer(0, cold - 1)}`
    const known = this.#versions.get(stream)
    return {
      stream,
      expected: known !== undefined && random.chance(0.1) ? random.pick<Expected>(['exists', known]) : 'any',
    }
  }

  learn(stream: string, version: number): void {
    this.#versions.set(stream, version)
  }
}
