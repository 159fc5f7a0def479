// How each side is set on PostgreSQL: what the peers' modules pass on, and what a run prints.
import { slots } from './workload.mjs'

/** Rows in one insert, claim or settlement, wherever a peer lets it be chosen. */
export const batch = 500

/** Its page on performance: a local queue and batched completions, with the figures that it shows. */
export const graphileWorker = {
  concurrentJobs: slots,
  maxPoolSize: slots + 2,
  localQueue: { size: batch },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}

/** The same page: a local queue may add latency, so where latency is measured there is none. */
export const graphileWorkerIdle = { concurrentJobs: slots, maxPoolSize: slots + 2 }

/** Fetches again at once while batches come back full, and otherwise as often as it allows. Four at a time were fastest. */
export const pgBossWork = {
  batchSize: batch,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
  localConcurrency: 4,
}

/** Nothing beside the jobs: no schedules, no maintenance, which would delete what is completed. */
export const pgBoss = { max: 10, schedule: false, supervise: false }

/** A table of its own, which its documentation advises for a large queue. */
export const pgBossQueue = { partition: true }

/** Its page on PostgreSQL: connections for the concurrency, finished jobs removed. More than ten were slower. */
export const bullmq = { concurrency: slots, max: 10 }

/** Lines for the setup. */
export const describeTuning = () => [
  `tuning    graphile-worker: ${text(graphileWorker)}; for latency ${text(graphileWorkerIdle)}; addJobs of ${batch}`,
  `tuning    pg-boss: ${text(pgBoss)}, queue ${text(pgBossQueue)}, work ${text(pgBossWork)}; fetch and complete of ${batch}; insert of ${batch}`,
  `tuning    bullmq: ${text(bullmq)}, removeOnComplete, removeOnFail; addBulk of ${batch}`,
  `tuning    ceiling: one connection, prepared statements, batches of ${batch}`,
]

function text(settings) {
  return JSON.stringify(settings).replaceAll('"', '').replaceAll(',', ', ').replaceAll(':', ': ')
}
