import { describeStore } from 'millrace/testing'
import { describe, test } from 'vitest'
import { engine, makeHarness, makeReference, pace } from './engines.js'

const modelRuns = Number(process.env.MILLRACE_MODEL_RUNS ?? 1000 * pace)
const trafficRuns = Number(process.env.MILLRACE_TRAFFIC_RUNS ?? 1000 * pace)
const stepRuns = Number(process.env.MILLRACE_STEP_RUNS ?? 100 * pace)

describeStore(engine, {
  runner: { describe, test },
  make: makeHarness,
  modelRuns,
  trafficRuns,
  stepRuns,
  ...(makeReference === undefined ? {} : { reference: makeReference }),
})
