/** The times of all runs around an outbox. */
export const outboxSettings = {
  /** How long a target may take; a lease on SQLite lasts 5 s longer. */
  timeoutMs: 1_500,
  pollMs: 100,
  /** Few rows at a time, so that there are many claims to die in. */
  batch: 12,
  /** Poison is set aside soon. */
  attempts: 3,
  backoff: { initialDelay: 20, maxDelay: 100 },
  /** After the last fault, nothing may wait any more within this time (I13). */
  drainLimitMs: 30_000,
  /**
   * Rows that a lost relay had claimed must be another's within this time (I13). On SQLite that takes a lease, and one more
   * for each that has the slot next and is lost as well.
   */
  recoveryLimitMs: 25_000,
  /** A writer pauses while so many rows wait. */
  level: 300,
  /** The workers of the target are not under attack: a busy machine must not look like a lost one. */
  leaseMs: 10_000,
  graceMs: 5_000,
  postgres: {
    statementTimeout: 5_000,
    lockTimeout: 2_000,
    idleInTransactionTimeout: 2_000,
    poolSize: 6,
  },
} as const
