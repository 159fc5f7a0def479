import { invalid, oneOf } from '../core/options.js'
import type { RecordedEvent } from './define-event.js'

/** Which event a projection is at. */
export type EventRef = Pick<RecordedEvent, 'id' | 'type' | 'stream' | 'version' | 'position'>

export interface EventStoreEvents {
  /** A handler threw, and is tried again, or the log did not answer as it should; the work goes on when it can. */
  error: {
    readonly error: unknown
    readonly during: string
    readonly projection?: string | undefined
    /** The one that was handled. */
    readonly event?: EventRef | undefined
    /** How often it was tried by now. */
    readonly tries?: number | undefined
    /** Milliseconds until it is tried again. */
    readonly retryIn?: number | undefined
  }
  /** A projection set an event aside; see `store.skipped`. */
  skipped: { readonly projection: string; readonly event: EventRef; readonly error: unknown }
  /** A rebuild is done: readers use this generation from now on. */
  swapped: { readonly projection: string; readonly generation: number; readonly table: string }
}

const names = Object.keys({
  error: true,
  skipped: true,
  swapped: true,
} satisfies Record<keyof EventStoreEvents, true>) as (keyof EventStoreEvents)[]

export type EventStoreListener<E extends keyof EventStoreEvents> = (event: EventStoreEvents[E]) => void

/** An error that nobody listens to is still seen: as a warning of the process. */
export class Listeners {
  readonly #sets = new Map<keyof EventStoreEvents, Set<EventStoreListener<keyof EventStoreEvents>>>()

  on<E extends keyof EventStoreEvents>(name: E, listener: EventStoreListener<E>): () => void {
    oneOf(name, names, 'name')
    if (typeof listener !== 'function') throw invalid('listener', listener, 'a function')
    const set = this.#sets.get(name) ?? new Set()
    this.#sets.set(name, set)
    const own = (event: never) => listener(event)
    set.add(own as EventStoreListener<keyof EventStoreEvents>)
    return () => set.delete(own as EventStoreListener<keyof EventStoreEvents>)
  }

  emit<E extends keyof EventStoreEvents>(name: E, event: EventStoreEvents[E]): void {
    const set = this.#sets.get(name)
    if (name === 'error' && (set === undefined || set.size === 0))
      return warn(event as EventStoreEvents['error'])
    for (const listener of [...(set ?? [])]) {
      try {
        ;(listener as EventStoreListener<E>)(event)
      } catch (error) {
        warn({ error, during: `listener of '${name}'` })
      }
    }
  }
}

function warn({ error, during }: EventStoreEvents['error']): void {
  const text = error instanceof Error ? error.message : String(error)
  process.emitWarning(`${during}: ${text} (listen with store.on('error', …))`, 'MillraceWarning')
}
