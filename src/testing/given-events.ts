import type { AnyEvent, EventDraft } from '../events/define-event.js'
import type { AnyProjection } from '../events/define-projection.js'
import { EventStore } from '../events/store.js'
import { expectEqual } from './expectation.js'
import { happen, type Later } from './given.js'
import { VirtualClock } from './virtual-clock.js'

/** Events of a stream, or time that passes. */
export type HistoryEntry = readonly [stream: string, ...events: EventDraft[]] | Later

export interface GivenEventsOptions {
  /**
   * Where they happen: a store that has the projection, for handlers that write with a database's transaction. It stays
   * open.
   * @default a store in memory
   */
  // biome-ignore lint/suspicious/noExplicitAny: a store of whatever events
  readonly store?: EventStore<any>
  /** Moves with `later(…)`. With a `store` it should be that of its log. @default a new one, without a `store` */
  readonly clock?: VirtualClock
  /** Definitions of events that happen and that the projection does not see. */
  readonly events?: readonly AnyEvent[]
}

/**
 * What has happened, for a test of what a projection makes of it:
 * `await givenEvents([['account-1', Opened({ owner: 'ann' })], later('2d'), ['account-1', Closed()]])
 *   .when(openAccounts).thenRead(() => rows, [])`.
 */
export function givenEvents(history: readonly HistoryEntry[], options: GivenEventsOptions = {}): GivenEvents {
  return new GivenEvents(history, options)
}

/** What a look at a projection gets. */
export interface ProjectionView {
  /** Of the live generation; undefined for an inline projection. */
  readonly table: string | undefined
}

export class GivenEvents {
  readonly #history: readonly HistoryEntry[]
  readonly #options: GivenEventsOptions

  constructor(history: readonly HistoryEntry[], options: GivenEventsOptions) {
    this.#history = history
    this.#options = options
  }

  /** The projection sees them all: inline as they happen, otherwise afterwards. */
  when(projection: AnyProjection): WhenProjected {
    return new WhenProjected(this.#run(projection))
  }

  async #run(projection: AnyProjection): Promise<ProjectionView> {
    const { store: own, events = [] } = this.#options
    const clock = this.#options.clock ?? (own === undefined ? new VirtualClock() : undefined)
    const store =
      own ??
      new EventStore<AnyEvent>({
        log: 'memory:',
        events,
        projections: [projection],
        ...(clock && { clock }),
      })
    try {
      await store.open()
      await happen(store, clock, this.#history)
      if (projection.kind === 'inline') return { table: undefined }
      await store.catchUp(projection)
      return { table: await store.table(projection) }
    } finally {
      if (own === undefined) await store.close()
    }
  }
}

export class WhenProjected {
  readonly #run: Promise<ProjectionView>

  constructor(run: Promise<ProjectionView>) {
    this.#run = run
    this.#run.catch(() => {})
  }

  /** What `read` finds is this. */
  async thenRead(read: (view: ProjectionView) => unknown, expected: unknown): Promise<void> {
    const view = await this.#run
    expectEqual('the projection came to something else', await read(view), expected)
  }

  /** Resolves when the projection has seen everything, for a look of one's own; rejects with what a handler threw. */
  seen(): Promise<ProjectionView> {
    return this.#run
  }
}
