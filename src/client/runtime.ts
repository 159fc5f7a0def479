import type { Clock } from '../core/clock.js'
import type { Codec } from '../core/codec.js'
import type { Emitter } from '../core/events.js'
import type { Store } from '../core/store.js'

/** What the client and the workers of one `Millrace` share. */
export interface Runtime {
  readonly store: Store
  readonly codec: Codec
  readonly clock: Clock
  readonly random: () => number
  readonly events: Emitter
  readonly limits: { readonly payload: number; readonly result: number }
  /** Resolves once the store is open; opens it on first use. */
  ready(): Promise<void>
  /** Whether `ready` has resolved. */
  isReady(): boolean
}
