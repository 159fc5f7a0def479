/**
 * The suite that every engine passes. An engine's own test file is ten lines: it makes harnesses and hands
 * over its runner. Each test has a store of its own, and none waits for time: they move the store's clock.
 */

import { breakerTests } from './breaker.js'
import { claimTests } from './claim.js'
import { concurrencyLimits } from './concurrency-limits.js'
import { configure } from './configure.js'
import { crash } from './crash.js'
import { dedupeTests } from './dedupe.js'
import { dedupeReturnTests } from './dedupe-return.js'
import { depthTests } from './depth.js'
import { extend } from './extend.js'
import { familyTests } from './family.js'
import { familyCancelTests } from './family-cancels.js'
import { familyFanTests } from './family-fans.js'
import { familyLivesTests } from './family-lives.js'
import { familyMeanwhileTests } from './family-meanwhile.js'
import { checkFamilies } from './family-model.js'
import { familyOpenTests } from './family-open.js'
import { familyReplayTests } from './family-replays.js'
import { familyStaysTests } from './family-stays.js'
import { familyUndoTests } from './family-undo.js'
import { checkFans } from './fan-model.js'
import { fencing } from './fencing.js'
import { groupSettings, groupTurns } from './groups.js'
import { guardTests } from './guard.js'
import { checkGuards } from './guard-model.js'
import { guardReplayTests } from './guard-replays.js'
import { guardUnwindingTests } from './guard-unwinding.js'
import { guardVerbTests } from './guard-verb.js'
import type { Runner, StoreHarness } from './harness.js'
import type { Test } from './helpers.js'
import { holdTests } from './holds.js'
import { insert } from './insert.js'
import { lanes } from './lanes.js'
import { limiterTests } from './limiter.js'
import { limitSettings } from './limits.js'
import { checkLockstep } from './lockstep.js'
import { checkAgainstModel } from './model.js'
import { cancelTests, operateFilters, operateStates, promoteAndRemoveTests, retryTests } from './operate.js'
import { operateFamilies } from './operate-families.js'
import { parkedJobs } from './parked-jobs.js'
import { quarantineTests } from './quarantine.js'
import { handlesTests, races } from './races.js'
import { rateLimits } from './rate-limits.js'
import { causeTests, countTests, getTests, listTests, trailTests } from './read.js'
import { checkSagas } from './saga-model.js'
import { scheduleAdvances, scheduleLists, schedulePauses, schedulePuts, schedulesDue } from './schedules.js'
import { searchTests } from './search.js'
import { setBackTests } from './set-back.js'
import { settleTests } from './settle.js'
import { signalTests } from './signals.js'
import { checkSteps } from './step-model.js'
import { stepTests } from './steps.js'
import { strayTests } from './strays.js'
import { subscribe } from './subscribe.js'
import { sweepDue, sweepExpired, sweepOrphans } from './sweep.js'
import { trafficHandles } from './traffic-handles.js'
import { checkSameTraffic, checkTraffic, checkTrafficOverHandles } from './traffic-model.js'
import { transactionTests } from './transaction.js'
import { unwindingTests } from './unwinding.js'
import { waitingTests } from './waiting.js'

export type { Runner, StoreHarness } from './harness.js'

export interface DescribeStoreOptions {
  readonly runner: Runner
  /** A store of its own for each test. */
  readonly make: () => Promise<StoreHarness>
  /** Random runs against the model. @default 1000 */
  readonly modelRuns?: number
  /** Random runs with limits, groups, breakers and crashes. @default 1000 */
  readonly trafficRuns?: number
  /** Random runs of handlers with steps and of sagas, by workers that are killed. @default 100 */
  readonly stepRuns?: number
  /** Harnesses of a store that this one must equal step by step, in random runs. @default none */
  readonly reference?: () => Promise<StoreHarness>
  /** Makes the random runs the same every time. @default a new one each time, printed when a run fails */
  readonly seed?: number
}

const parts: readonly [string, (test: Test) => void][] = [
  ['insert', insert],
  ['insert: dedupe', dedupeTests],
  ['dedupe: who comes back', dedupeReturnTests],
  ['insert: depth', depthTests],
  ['exchange: claim', claimTests],
  ['exchange: settle', settleTests],
  ['extend', extend],
  ['extend: strays', strayTests],
  ['sweep: due', sweepDue],
  ['sweep: retention', sweepExpired],
  ['sweep: orphans', sweepOrphans],
  ['operate: states', operateStates],
  ['operate: cancel', cancelTests],
  ['operate: retry', retryTests],
  ['operate: promote and remove', promoteAndRemoveTests],
  ['operate: filters', operateFilters],
  ['operate: families', operateFamilies],
  ['configure', configure],
  ['get', getTests],
  ['trail', trailTests],
  ['list', listTests],
  ['list: search', searchTests],
  ['counts', countTests],
  ['causes', causeTests],
  ['subscribe', subscribe],
  ['lanes', lanes],
  ['fencing', fencing],
  ['races', races],
  ['several handles', handlesTests],
  ['crash', crash],
  ['limits: rate', rateLimits],
  ['limits: concurrency', concurrencyLimits],
  ['limits: a clock that is set back', setBackTests],
  ['limits: settings', limitSettings],
  ['limits: holds', holdTests],
  ['limits: jobs that wait', parkedJobs],
  ['groups: turns', groupTurns],
  ['groups: settings', groupSettings],
  ['breaker', breakerTests],
  ['limiter', limiterTests],
  ['quarantine', quarantineTests],
  ['traffic control over several handles', trafficHandles],
  ['family', familyTests],
  ['family: open', familyOpenTests],
  ['family: replays', familyReplayTests],
  ['family: replays meanwhile', familyMeanwhileTests],
  ['family: cancels', familyCancelTests],
  ['family: fans', familyFanTests],
  ['family: lives', familyLivesTests],
  ['family: jobs that stay', familyStaysTests],
  ['family: what was undone', familyUndoTests],
  ['guards of jobs', guardTests],
  ['guards of jobs: replays', guardReplayTests],
  ['guards of jobs: unwinding', guardUnwindingTests],
  ['guard', guardVerbTests],
  ['begin: transactions', transactionTests],
  ['schedules: put and remove', schedulePuts],
  ['schedules: advance', scheduleAdvances],
  ['schedules: pause', schedulePauses],
  ['schedules: due', schedulesDue],
  ['schedules: lists', scheduleLists],
  ['steps', stepTests],
  ['waiting', waitingTests],
  ['signals', signalTests],
  ['cancel: jobs that undo what they did', unwindingTests],
]

export function describeStore(name: string, options: DescribeStoreOptions): void {
  const { runner, make, reference, modelRuns = 1000, trafficRuns = 1000, stepRuns = 100, seed } = options
  runner.describe(`${name}: conformance`, () => {
    for (const [part, define] of parts) {
      runner.describe(part, () =>
        define((title, body, timeout) => runner.test(title, () => withHarness(make, body), timeout)),
      )
    }
    runner.describe('model', () => {
      const check = () => checkAgainstModel({ make, runs: modelRuns, seed })
      runner.test(`${modelRuns} random runs behave as the model does`, check, modelTimeout)
    })
    runner.describe('families', () => {
      const fewer = Math.ceil(trafficRuns / 2)
      const check = () => checkFamilies({ make, reference, runs: fewer, seed })
      runner.test(`${fewer} random families all come to an end`, check, modelTimeout)
    })
    runner.describe('guards', () => {
      const runs = Math.ceil(modelRuns / 4)
      const check = () => checkGuards({ make, runs, seed })
      runner.test(`${runs} random runs let one at a time work under a key`, check, modelTimeout)
    })
    runner.describe('steps of handlers', () => {
      const check = () => checkSteps({ make, runs: stepRuns, seed })
      runner.test(`${stepRuns} random runs end with one memo for each step`, check, modelTimeout)
      const fans = () => checkFans({ make, runs: stepRuns, seed })
      runner.test(`${stepRuns} random runs with children find what they went on from`, fans, modelTimeout)
      const sagas = () => checkSagas({ make, runs: stepRuns, seed })
      runner.test(`${stepRuns} random sagas are done, or undone in reverse`, sagas, modelTimeout)
    })
    runner.describe('traffic control', () => {
      const fewer = Math.ceil(trafficRuns / 4)
      const check = () => checkTraffic({ make, runs: trafficRuns, seed })
      runner.test(`${trafficRuns} random runs break no limit and leave no job behind`, check, modelTimeout)
      const overHandles = () => checkTrafficOverHandles({ make, runs: fewer, seed })
      runner.test(`${fewer} random runs over two handles break none either`, overHandles, modelTimeout)
      const lockstep = () => checkLockstep({ make, reference, runs: fewer, seed })
      runner.test(`${fewer} random runs with dedupe and depth limits keep all counts`, lockstep, modelTimeout)
      if (reference === undefined) return
      const compare = () => checkSameTraffic({ make, reference, runs: fewer, seed })
      runner.test(`${fewer} random runs show the same as those of the reference`, compare, modelTimeout)
    })
  })
}

/** Generous, because a run that fails is shrunk. */
const modelTimeout = 300_000

async function withHarness(
  make: () => Promise<StoreHarness>,
  body: (harness: StoreHarness) => Promise<void>,
): Promise<void> {
  const harness = await make()
  try {
    await body(harness)
  } finally {
    await harness.close()
  }
}
