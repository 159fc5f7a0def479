/** The times of all runs. Short leases make recovery quick; the product's defaults are far longer. */
export const settings = {
  leaseMs: 1_000,
  /** Also how often a worker sweeps. */
  pollMs: 100,
  concurrency: 8,
  graceMs: 5_000,
  /** After the last fault, the backlog must be gone within this time (I13). */
  drainLimitMs: 25_000,
  /** A job that its worker lost must start again within this time (I13). */
  recoveryLimitMs: 10_000,
  /** After a fault has healed, each process must have heard from the server again within this time (I13). */
  resumeLimitMs: 20_000,
  /** Shorter than the product's own for the same reason: a server that says nothing is given up after 7 s. */
  postgres: { statementTimeout: 5_000, lockTimeout: 1_000, idleInTransactionTimeout: 2_000 },
  redis: { commandTimeout: 5_000 },
  /** An armed process that met no fail point by then is killed as it is. */
  patienceMs: 10_000,
  /** Jobs of a flow of several writes besides the one that it leads to, and how long such a flow may stay unfinished. */
  flowParts: 1_300,
  flowPatienceMs: 1_500,
} as const
