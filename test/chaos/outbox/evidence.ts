/** What the judge of an outbox gets, and how it speaks. */
import type { JobState } from 'millrace'
import type { Kind } from 'millrace/outbox'
import type { Violation } from '../checker.js'
import type { Delivery, OutboxEvent } from './history.js'
import type { Order } from './orders.js'

export interface OutboxEvidence {
  readonly events: readonly OutboxEvent[]
  /** That are in the database. */
  readonly orders: readonly Order[]
  /** In the order in which they were made. */
  readonly deliveries: readonly Delivery[]
  /** That the Millrace has. */
  readonly jobs: readonly { readonly id: string; readonly state: JobState }[]
  readonly aside: readonly { readonly kind: Kind; readonly id: string }[]
  /** Processes that did nothing any more for what they had, from then on. */
  readonly losses: readonly { readonly name: string; readonly t: number }[]
  /** Time from the last fault until nothing waits any more; undefined when that never came. */
  readonly drainedAfterMs: number | undefined
  readonly limits: { readonly drainMs: number; readonly recoveryMs: number }
  /** Relays may go on with what is another's by then: they were stopped, or their connections were lost. */
  readonly hasZombies: boolean
  /** The Millrace's own server was killed, so jobs may have run more than once. */
  readonly mayRerun: boolean
  /** The fault gives relays reason to show errors. */
  readonly mayComplain: boolean
}

export type Accuse = (invariant: Violation['invariant'], text: string) => void
export type EventOf<E extends OutboxEvent['e']> = Extract<OutboxEvent, { e: E }>

export function eventsOf<E extends OutboxEvent['e']>(events: readonly OutboxEvent[], e: E): EventOf<E>[] {
  return events.filter((event): event is EventOf<E> => event.e === e)
}

export function some(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(', ')
  return names.length > 5 ? `${shown}, …` : shown
}
