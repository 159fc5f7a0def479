/** What is published to a broker: a message that an outbox has kept until now. */
export interface Message {
  /** The same whenever it is published again: what a broker or a consumer drops duplicates by. */
  readonly id: string
  /** Where to: a routing key, a subject, a topic. */
  readonly topic: string
  /** Messages of one key are published in the order in which they were written. */
  readonly key: string | undefined
  /** Encoded by the outbox's codec: JSON, unless it has another one. */
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** When it was written, epoch milliseconds by the outbox's clock. */
  readonly at: number
}
