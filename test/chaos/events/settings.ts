/** The times of all runs on an event store. */
export const eventsSettings = {
  /** Of workers and rebuilds. */
  leaseMs: 1_000,
  pollMs: 100,
  /** Few events at a time, so that there are many batches to die in. */
  batch: 20,
  /** How long readers have the old table after a swap. */
  keepOldMs: 150,
  /** After the last fault, every projection must have seen everything within this time (I13). */
  drainLimitMs: 30_000,
  /** Parts that a lost worker had must be another's within this time (I13). */
  recoveryLimitMs: 15_000,
  /**
   * The server waits so long for a transaction of a projection that has fallen silent. What it has locked is nobody's until
   * then; where that is a checkpoint, the part is.
   */
  silenceLimitMs: 75_000,
  graceMs: 5_000,
  postgres: {
    statementTimeout: 5_000,
    lockTimeout: 2_000,
    idleInTransactionTimeout: 2_000,
    poolSize: 9,
  },
} as const
