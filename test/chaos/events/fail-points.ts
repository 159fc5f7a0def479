/** Where processes around an event store kill themselves. The points lie in what wraps its log, in handlers and the writer. */
export type EventsFailPoint =
  /** A part was taken, nothing was done. */
  | 'taken'
  /** Some events of a batch are handled. */
  | 'handling'
  /** All of them are, the checkpoint has not moved. */
  | 'handled'
  /** It has, in the transaction. */
  | 'advanced'
  /** The commit is on its way. */
  | 'commit-sent'
  /** The worker knows that it is committed, or written, and has not asked for more. */
  | 'committed'
  /** A lease is about to be renewed, or is. */
  | 'renewing'
  | 'renewed'
  /** A generation gets its table. */
  | 'creating'
  /** It is known, and empty. */
  | 'begun'
  /** It is about to take the live one's place. */
  | 'swapping'
  | 'swap-sent'
  | 'swapped'
  /** The old table is about to go, or is gone. */
  | 'dropping'
  | 'dropped'
  /** Not a death: the process stops itself with a page in its hand, and somebody else has to wake it. */
  | 'freeze-read'
  /** The same when all was handled, in the transaction. */
  | 'freeze-handled'
  /** All of a transaction was appended, nobody has asked for its commit. */
  | 'appended'
