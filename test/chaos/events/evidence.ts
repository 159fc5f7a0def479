/** What the judge of an event store gets, and how it speaks. */
import type { Violation } from '../checker.js'
import type { KeptEvent, Sighting, Total } from './book.js'
import type { EventsEvent } from './history.js'

export interface EventsEvidence {
  readonly events: readonly EventsEvent[]
  /** That are in the log, by position. */
  readonly kept: readonly KeptEvent[]
  /** What projections wrote with their transactions, in order. */
  readonly sightings: readonly Sighting[]
  /** The read models as they are now, each of the generation that is live. */
  readonly models: readonly LiveModel[]
  /** Processes that followed from the first event to the last. */
  readonly followers: readonly string[]
  /** Keys of events that have a job, one for each job; undefined where nobody reacts. */
  readonly jobs: readonly string[] | undefined
  /** Tables of read models. */
  readonly tables: readonly string[]
  /** Processes that did nothing any more for what they had, from then on. */
  readonly losses: readonly { readonly name: string; readonly t: number }[]
  /** When those who were left were told to end. */
  readonly endedAt: number
  /** Time from the last fault until everything has been seen; undefined when that never came. */
  readonly drainedAfterMs: number | undefined
  readonly limits: { readonly drainMs: number; readonly recoveryMs: number }
  /** The fault gives processes reason to show errors. */
  readonly mayComplain: boolean
}

export interface LiveModel {
  readonly name: string
  readonly generation: number
  readonly table: string
  readonly totals: readonly Total[]
}

export type Accuse = (invariant: Violation['invariant'], text: string) => void
type EventOf<E extends EventsEvent['e']> = Extract<EventsEvent, { e: E }>

export function eventsOf<E extends EventsEvent['e']>(events: readonly EventsEvent[], e: E): EventOf<E>[] {
  return events.filter((event): event is EventOf<E> => event.e === e)
}

/** Says how many there are, and names some. */
export function accuseOf(
  accuse: Accuse,
  invariant: Violation['invariant'],
  names: readonly string[],
  what: string,
): void {
  if (names.length === 0) return
  const shown = names.slice(0, 5).join(', ')
  accuse(invariant, `${names.length} ${what}: ${names.length > 5 ? `${shown}, …` : shown}`)
}
