import { describeStore } from 'millrace/testing'
import { describe, test } from 'vitest'
import { engine, makeHarness, makeReference } from './engines.js'

const modelRuns = Number(process.env.MILLRACE_MODEL_RUNS ?? 1000)
const flowRuns = Number(process.env.MILLRACE_FLOW_RUNS ?? 1000)

describeStore(engine, {
  runner: { describe, test },
  make: makeHarness,
  modelRuns,
  flowRuns,
  ...(makeReference === undefined ? {} : { reference: makeReference }),
})
