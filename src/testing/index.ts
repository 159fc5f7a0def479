export { describeStore, type DescribeStoreOptions, type Runner, type StoreHarness } from './conformance/index.js'
export { runJob, type RunJobOptions, type RunJobResult } from './run-job.js'
export { type DrainOptions, type Enqueued, TestMill, type TestMillOptions } from './test-mill.js'
export { VirtualClock } from './virtual-clock.js'
