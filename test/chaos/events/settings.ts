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
  /** The server waits a minute for a handler that has fallen silent, and so do others for what that has locked. */
  silenceLimitMs: 75_000,
  graceMs: 5_000,
  postgres: {
    statementTimeout: 5_000,
    lockTimeout: 2_000,
    idleInTransactionTimeout: 2_000,
    poolSize: 9,
  },
} as const
