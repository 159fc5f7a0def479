import { describeStore } from 'millrace/testing'
import { describe, test } from 'vitest'
import { engine, isRemote, makeHarness, makeReference, pace } from './engines.js'

const modelRuns = Number(process.env.MILLRACE_MODEL_RUNS ?? (isRemote ? 60 : 1000))
const trafficRuns = Number(process.env.MILLRACE_TRAFFIC_RUNS ?? (isRemote ? 40 : 1000))
const stepRuns = Number(process.env.MILLRACE_STEP_RUNS ?? 100 * pace)

describeStore(engine, {
  runner: { describe, test },
  make: makeHarness,
  modelRuns,
  trafficRuns,
  stepRuns,
  ...(makeReference === undefined ? {} : { reference: makeReference }),
})
