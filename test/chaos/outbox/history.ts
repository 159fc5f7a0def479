/** What the processes around an outbox wrote down. */
import type { Kind } from 'millrace/outbox'

export type OutboxEvent = Told & { readonly by?: string }

type Told =
  /** A transaction that writes these begins. */
  | { e: 'tried'; t: number; ids: readonly string[] }
  /** The database said so. */
  | { e: 'committed'; t: number; ids: readonly string[] }
  /** They were rolled back on purpose, with their transaction or to a savepoint in it. */
  | { e: 'undone'; t: number; ids: readonly string[] }
  /** A relay got rows: `rows` are their names. */
  | { e: 'claimed'; t: number; claim: string; how: ClaimedBy; rows: readonly string[] }
  | { e: 'settle-try'; t: number; claim: string }
  /** `failed`: nobody knows. */
  | { e: 'settle-result'; t: number; claim: string; result: 'settled' | 'lost' | 'failed' | 'released' }
  /** The outbox answered, and had nothing. */
  | { e: 'idle'; t: number }
  | { e: 'following'; t: number; kind: Kind; on: boolean }
  /** The Millrace answered. */
  | { e: 'inserted'; t: number; count: number }
  /** A job ran. */
  | { e: 'effect'; t: number; id: string }
  /** Shown to users by the `error` event of a relay, or met by a writer. */
  | { e: 'error'; t: number; code: string; during: string; message: string }
  /** The process is about to stop itself. */
  | { e: 'frozen'; t: number; claim: string }
  /** The process is about to kill itself. */
  | { e: 'die'; t: number; worker: string; point: string }

export type ClaimedBy = 'poll' | 'catch-up' | 'stream'

/** One line of what has arrived at the broker, or was given to the Millrace, in the order in which it was. */
export interface Delivery {
  readonly kind: Kind
  readonly id: string
  readonly by: string
  /** Given at a time. */
  readonly batch: string
}

export function nameOf({ kind, id }: { readonly kind: Kind; readonly id: string }): string {
  return `${kind} ${id}`
}
