/** What the processes around an event store wrote down. */
import type { Expected } from 'millrace/events'

export type EventsEvent = Told & { readonly by?: string }

type Told =
  /** A transaction that appends these begins. */
  | { e: 'tried'; t: number; appends: readonly TriedAppend[] }
  /** The store said so, and nothing is committed yet. */
  | { e: 'refused'; t: number; id: string; actual: number }
  /** The database said so; it was asked for at `asked`. */
  | { e: 'committed'; t: number; asked: number; appends: readonly DoneAppend[] }
  /** They were rolled back on purpose, or nobody had asked for their commit when the transaction failed. */
  | { e: 'undone'; t: number; ids: readonly string[] }
  /** Somebody got events, in this order. */
  | { e: 'seen'; t: number; reader: string; events: readonly SeenEvent[] }
  /** A part was taken, or its lease renewed; it was asked for at `asked`. */
  | { e: 'held'; t: number; asked: number; part: string; token: string; position: number }
  | { e: 'advance-try'; t: number; part: string; token: string; position: number }
  /** `failed`: nobody knows. With `done` the lease was given back. */
  | {
      e: 'advance-result'
      t: number
      part: string
      token: string
      position: number
      done: boolean
      result: Advanced
    }
  /** The log answered a worker that looks for parts. */
  | { e: 'looked'; t: number }
  | { e: 'rebuilt'; t: number; generation: number }
  /** Shown to users by the `error` event, or met by a caller. */
  | { e: 'error'; t: number; code: string; during: string; message: string }
  /** The process is about to stop itself. */
  | { e: 'frozen'; t: number }
  /** The process is about to kill itself. */
  | { e: 'die'; t: number; worker: string; point: string }

export type Advanced = 'advanced' | 'lost' | 'failed'

/** Its events have the keys `id:0`, `id:1` and so on. */
export interface TriedAppend {
  readonly id: string
  readonly stream: string
  readonly expected: Expected
  readonly size: number
}

export interface DoneAppend {
  readonly id: string
  /** Of the last event. */
  readonly version: number
  readonly position: number
}

/** Position, key, and when it was seen. */
export type SeenEvent = readonly [position: number, key: string, t: number]

export function keysOf({ id, size }: Pick<TriedAppend, 'id' | 'size'>): string[] {
  return Array.from({ length: size }, (_, i) => `${id}:${i}`)
}
