export { BatchCollector, RowsLeftError } from './batch-collector.js'
export type { BatchCollectorOptions, CollectorCloseOptions, FlushContext } from './batch-options.js'
export { LocalQueue, type LocalQueueEvents } from './local-queue.js'
export type {
  LocalCloseOptions,
  LocalContext,
  LocalQueueOptions,
  Overflow,
  PushOptions,
} from './options.js'
export type { FlushRetryOptions } from './retry.js'
