/** Every bound of the system in one place. What users can change stands in `options.ts` as a default. */
export const bounds = {
  nameLength: 128,
  idLength: 128,
  tags: 16,
  tagLength: 64,
  /** Fields of its input that a job is found by, and the lengths of their paths and values. */
  search: 8,
  searchPath: 128,
  searchText: 256,
  metadataBytes: 16 * 1024,
  payloadBytes: 1024 * 1024,
  resultBytes: 1024 * 1024,
  payloadDepth: 100,
  /** What one step gives. */
  stepBytes: 1024 * 1024,
  /** What all steps of a job give. */
  stepsBytes: 16 * 1024 * 1024,
  /** Steps of a job. */
  steps: 5_000,
  /** Error message and stack together. */
  failureText: 16 * 1024,
  /** One entry of the attempts' history. */
  attemptText: 2 * 1024,
  attemptsKept: 20,
  progressBytes: 16 * 1024,
  logLines: 100,
  logText: 1024,
  reasonText: 1024,
  delay: 10 * 365.25 * 24 * 3600_000,
  attempts: 10_000,
  concurrency: 10_000,
  /** Threads and processes of one worker. */
  sandboxes: 1_000,
  /** Of a rate or of what runs at the same time. */
  limit: 1_000_000,
  weight: 1_000,
  ratePer: 31 * 24 * 3600_000,
  prefetch: 1_000,
  /** Jobs per insert, claim, sweep or operate call. */
  batch: 1_000,
  /** Jobs that a worker holds in batches that have not started; beyond it, the oldest batch waits no longer. */
  collected: 10_000,
  batchWait: 3600_000,
  page: 1_000,
  /** Jobs of one flow. */
  flow: 1_000_000,
  /** Links that one call looks at. */
  scan: 5_000,
  /** So that the ids of a schedule's jobs, which name it and their slot, are no longer than ids may be. */
  scheduleName: 90,
  /** Schedules that one sweep names. */
  schedules: 200,
  /** Slots of a schedule that fire at once when it catches up. */
  slots: 100,
} as const
