export {
  type DescribeStoreOptions,
  describeStore,
  type Runner,
  type StoreHarness,
} from './conformance/index.js'
export type { ErrorMatch } from './expectation.js'
export { Given, type GivenOptions, given, type Later, later, When } from './given.js'
export {
  GivenEvents,
  type GivenEventsOptions,
  givenEvents,
  type HistoryEntry,
  type ProjectionView,
  WhenProjected,
} from './given-events.js'
export { type RunJobOptions, type RunJobResult, runBatch, runJob } from './run-job.js'
export { type DrainOptions, type Enqueued, TestMill, type TestMillOptions } from './test-mill.js'
export type { TrialChild } from './trial-children.js'
export { VirtualClock } from './virtual-clock.js'
