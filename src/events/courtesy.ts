import { checkpointsOf } from './generations.js'
import type { ProjectionRecord } from './log.js'

/**
 * When workers stand aside for a rebuild: it can only take the place of the live generation while nobody works on that.
 * They do once it has nearly caught up, for a few seconds at a time, so that one that never gets there does not stop
 * what is live.
 */
export class Courtesy {
  /** By projection: until when they stand aside, and from when on they may be asked again. */
  readonly #granted = new Map<string, { readonly until: number; readonly again: number }>()

  standsAside(record: ProjectionRecord, now: number): boolean {
    if (!isNearlyDone(record)) return false
    const granted = this.#granted.get(record.name)
    if (granted !== undefined && now < granted.again) return now < granted.until
    this.#granted.set(record.name, { until: now + asideMs, again: now + asideMs + atWorkMs })
    return true
  }
}

const asideMs = 5_000
const atWorkMs = 10_000

/** Somebody builds a generation, and it is hardly behind the live one. */
export function isNearlyDone(record: ProjectionRecord): boolean {
  const { building, live } = record
  if (building === undefined) return false
  const built = checkpointsOf(record, building)
  const isWorkedOn = built.some(({ owner }) => owner !== undefined)
  return isWorkedOn && behind(record, live, building) <= nearly
}

/** The most positions that a part of the generation is behind the same part of the live one. */
function behind(record: ProjectionRecord, live: number, building: number): number {
  const now = new Map(checkpointsOf(record, live).map(({ part, position }) => [part, position]))
  return Math.max(
    0,
    ...checkpointsOf(record, building).map(({ part, position }) => (now.get(part) ?? 0) - position),
  )
}

/** Positions: a second's work or so. */
const nearly = 1_000
