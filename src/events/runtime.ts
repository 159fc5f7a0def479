import type { Clock } from '../core/clock.js'
import type { Catalogue } from './catalogue.js'
import type { AnyProjection } from './define-projection.js'
import type { Listeners } from './listeners.js'
import type { EventLog } from './log.js'
import type { CompiledRetention } from './retention.js'

/** What the parts of an event store share. */
export interface EventRuntime {
  /** Throws before it is open. */
  readonly log: EventLog
  readonly catalogue: Catalogue
  readonly clock: Clock
  readonly listeners: Listeners
  readonly projections: ReadonlyMap<string, AnyProjection>
  readonly retention: CompiledRetention
  readonly isReady: boolean
  ready(): Promise<void>
  /** Aborts when the store is being closed. */
  readonly closing: AbortSignal
  /** Work that nobody waits for; closing does. */
  background(work: Promise<unknown>): void
}
