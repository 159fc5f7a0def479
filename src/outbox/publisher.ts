import type { Message } from './message.js'

/**
 * What an outbox's relay hands messages to. Small on purpose: anything that takes a message for good and says so can be
 * one.
 */
export interface Publisher {
  /** For messages about errors. */
  readonly name: string
  /** Connects. Called before each batch, so that a connection that was lost is made again: with one that stands it does nothing. */
  open?(): Promise<void>
  /**
   * Resolves when each message has been taken for good, or has not: a result for each, in order. Rejects when nothing is
   * known of any of them, as when the connection was lost; then all are published again. Messages of one key are to arrive
   * in their order. The signal aborts when nobody waits for the answer any more.
   */
  publish(messages: readonly Message[], signal: AbortSignal): Promise<readonly PublishResult[]>
  close?(): Promise<void>
}

/**
 * `refused`: this message is at fault, such as one that is too large or leads nowhere; it is tried again a bounded number
 * of times, then set aside. `failed`: the other side is at fault; it is tried again until it works.
 */
export type PublishResult = 'published' | { readonly status: 'refused' | 'failed'; readonly error: unknown }
