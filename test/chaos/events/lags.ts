/** How far behind the log its readers are: from the moment that a commit was asked for to the moment that a reader has it. */
import { percentileOf } from '../row.js'
import type { KeptEvent } from './book.js'
import { eventsOf } from './evidence.js'
import type { EventsEvent } from './history.js'

export interface Lags {
  readonly reader: string
  readonly seen: number
  /** Milliseconds, in order. */
  readonly ms: readonly number[]
}

export function lagsOf(
  events: readonly EventsEvent[],
  kept: readonly KeptEvent[],
  readers: readonly string[],
): Lags[] {
  const asked = new Map<string, number>()
  for (const commit of eventsOf(events, 'committed'))
    for (const { id } of commit.appends) asked.set(id, commit.asked)
  const askedAt = new Map(
    kept.map(({ position, key }) => [position, asked.get(key.slice(0, key.lastIndexOf(':')))]),
  )
  const seen = eventsOf(events, 'seen')
  return readers.map((reader) => {
    const own = seen.filter((event) => event.reader === reader).flatMap((event) => event.events)
    const ms = own.flatMap(([position, , t]) => {
      const from = askedAt.get(position)
      return from === undefined ? [] : [Math.max(0, t - from)]
    })
    return { reader, seen: own.length, ms: ms.sort((a, b) => a - b) }
  })
}

export function describeLags(lags: readonly Lags[]): string {
  return lags
    .map(({ reader, seen, ms }) => {
      const figures = [0.5, 0.99, 1 - Number.EPSILON].map((part) => percentileOf(ms, part) ?? '-')
      return `${reader} ${figures.join('/')} of ${seen}`
    })
    .join(', ')
}
