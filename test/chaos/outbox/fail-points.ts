/** Where processes around an outbox kill themselves. The points lie in what wraps its store, its targets and the writer. */
export type OutboxFailPoint =
  /** Rows were claimed, none has left. */
  | 'claimed'
  /** Some of a batch have left, or the Millrace has a batch and did not answer yet. */
  | 'delivering'
  /** All have left, the settlement was not sent. */
  | 'delivered'
  /** The settlement is on its way; a thread kills the process before the answer, more or less. */
  | 'settle-sent'
  /** The relay knows that it is settled, and has not claimed again. */
  | 'settled'
  /** While a relay begins to follow. */
  | 'begins'
  /** Anywhere in a claim of what was there before the stream. */
  | 'catching-up'
  /** The same windows of rows that the database told of. */
  | 'streamed'
  | 'stream-delivering'
  | 'stream-delivered'
  | 'stream-settle-sent'
  | 'stream-settled'
  /** Not a death: the relay stops itself between delivery and settlement, and somebody else has to wake it. */
  | 'freeze'
  /** The same of rows that the database told of. */
  | 'stream-freeze'
  /** All of a transaction was written, nobody has asked for its commit. */
  | 'written'
  /** The commit is on its way. */
  | 'commit-sent'
  | 'committed'
