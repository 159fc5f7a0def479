import type { StoredEvent, Surplus, SurplusQuery } from '../log.js'

/** An event's, as categories are gone through. */
export interface Place {
  readonly stream: string
  readonly version: number
}

/** Events that one call looks at. */
export const window = 10_000

/**
 * How far each policy has come: a call looks at a bounded number of events of a category, in the order of its streams,
 * and the next one goes on behind them. A round that has come to the end begins again.
 */
export class Rounds {
  readonly #places = new Map<string, Place>()

  /** Where to go on, behind this place. */
  next(query: SurplusQuery): Place {
    return this.#places.get(keyOf(query)) ?? { stream: query.category, version: 0 }
  }

  /**
   * `last`: the last event that was looked at, undefined at the end of the category; `found`: what is surplus, in the order
   * of the streams, which is found again until it is removed.
   */
  looked(query: SurplusQuery, last: Place | undefined, found: readonly StoredEvent[]): Surplus {
    const key = keyOf(query)
    const [first] = found
    this.#places.delete(key)
    const reached = first === undefined ? last : { stream: first.stream, version: first.version - 1 }
    if (reached !== undefined) this.#places.set(key, reached)
    if (this.#places.size > mostPolicies) this.#places.delete(this.#places.keys().next().value as string)
    const events = [...found].sort((a, b) => a.position - b.position)
    return { events, more: last !== undefined || found.length === query.limit }
  }
}

const mostPolicies = 1_000

function keyOf({ category, superseded }: SurplusQuery): string {
  return `${superseded ? 'superseded' : 'all'} ${category}`
}

/** Where the streams of a category begin and end: it is its name that comes before the first '-'. */
export function rangeOf(category: string) {
  return { category, begin: `${category}-`, end: `${category}.` }
}
