/**
 * The steps of a lockstep run, as data: jobs that make way for each other inside one call and over many, in
 * queues that refuse them, shed them or put them off. Numbers that stand for jobs count back from the newest.
 */
import type { Arbitrary } from 'fast-check'
import { type JobState, jobStates } from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'
import type { Command } from '../../core/store.js'
import { type Dedupe, dedupeModes } from '../../core/traffic/dedupe.js'
import type { DepthPolicy } from '../../core/traffic/depth.js'
import type { GateRef, JobTraffic } from '../../core/traffic/settings.js'
import type { FastCheck } from './model-steps.js'
import {
  type ClaimStep,
  type JobStep,
  keys,
  type OutcomeStep,
  queues,
  type SettingStep,
  trafficOf,
  trafficPartsOf,
} from './traffic-parts.js'

/** Short enough to run out within a run, long enough for most jobs to be settled before. */
export const lease = 200

export interface LockstepJob extends JobStep {
  /** Which of the ids ever given it has; undefined for a new one. */
  readonly again: number | undefined
  readonly maxCrashes: number
  readonly dedupe: Dedupe | undefined
}

export interface LockstepSettlement {
  /** Of a lease that has ended, or with a token that nobody gave. */
  readonly wrong: 'stale' | 'forged' | undefined
  readonly outcome: OutcomeStep | { readonly to: 'wait' }
  /** Leaves nothing behind if it ends. */
  readonly vanish: boolean
  readonly report: boolean
  readonly inserts: readonly LockstepJob[] | undefined
}

export type LockstepVerb =
  | { readonly verb: 'insert'; readonly jobs: readonly LockstepJob[] }
  /** The worker of the process settles its oldest runs and claims. */
  | {
      readonly verb: 'exchange'
      readonly settlements: readonly LockstepSettlement[]
      readonly claim: ClaimStep | undefined
    }
  | { readonly verb: 'extend' }
  | { readonly verb: 'sweep' }
  /** Of what the last sweep named. */
  | { readonly verb: 'rescue'; readonly vanish: boolean }
  | { readonly verb: 'operate on ids'; readonly ids: readonly number[]; readonly command: Command }
  | {
      readonly verb: 'operate'
      readonly state: JobState
      readonly queue: string | undefined
      readonly command: Command
    }
  | ({ readonly verb: 'configure'; readonly declared: boolean } & SettingStep)
  | { readonly verb: 'pause'; readonly queue: string; readonly paused: boolean }
  | { readonly verb: 'breaker'; readonly job: string; readonly to: 'open' | 'closed' }
  | { readonly verb: 'release'; readonly gate: GateRef }
  | { readonly verb: 'acquire'; readonly permits: number; readonly waiter: string | undefined }

export type LockstepStep =
  /** Called one after the other by one process, none waiting for the answer to the one before. */
  | { readonly step: 'turn'; readonly handle: 0 | 1; readonly verbs: readonly LockstepVerb[] }
  | { readonly step: 'advance'; readonly ms: number }
  | { readonly step: 'set back'; readonly ms: number }
  /** All workers fall silent for a lease, and what they held is rescued. */
  | { readonly step: 'crash'; readonly vanish: boolean }

const mostSteps = 40

export function lockstepStepsOf(fc: FastCheck): Arbitrary<LockstepStep[]> {
  const { write, verb } = verbsOf(fc)
  const step: Arbitrary<LockstepStep> = fc.oneof(
    {
      weight: 24,
      arbitrary: fc.record({
        step: fc.constant('turn' as const),
        handle: fc.constantFrom(0 as const, 0 as const, 0 as const, 1 as const),
        verbs: fc.oneof(
          { withCrossShrink: true },
          { weight: 4, arbitrary: fc.tuple(verb) },
          { weight: 1, arbitrary: fc.array(write, { minLength: 2, maxLength: 4 }) },
        ),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        step: fc.constant('advance' as const),
        ms: fc.constantFrom(1, 1, 2, 5, 5, 9, 10, 20, 35, 90),
      }),
    },
    { weight: 1, arbitrary: fc.record({ step: fc.constant('crash' as const), vanish: fc.boolean() }) },
    {
      weight: 1,
      arbitrary: fc.record({ step: fc.constant('set back' as const), ms: fc.constantFrom(3, 1_500) }),
    },
  )
  return fc.array(step, { minLength: 1, maxLength: mostSteps, size: 'max' })
}

/** Writes keep the order in which they are called; what may look first, without a lock, is called alone. */
function verbsOf(fc: FastCheck): { write: Arbitrary<LockstepVerb>; verb: Arbitrary<LockstepVerb> } {
  const seldom = <T>(arbitrary: Arbitrary<T>): Arbitrary<T | undefined> =>
    fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })
  const parts = trafficPartsOf(fc)
  const { queue, name } = parts
  const retain = fc.constantFrom(1_000_000, 0, 30)
  const vanish = fc.constantFrom(false, false, true)

  const dedupe: Arbitrary<Dedupe> = fc.record({
    key: fc.constantFrom(...keys),
    mode: fc.constantFrom(...dedupeModes),
    window: fc.constantFrom(5, 20),
    most: fc.constantFrom(20, 50),
  })
  const job: Arbitrary<LockstepJob> = fc
    .record({
      again: seldom(fc.nat(8)),
      maxCrashes: fc.constantFrom(100, 1, 2),
      dedupe: fc.option(dedupe, { nil: undefined, freq: 3 }),
      fields: parts.job,
    })
    .map(({ fields, ...rest }) => ({ ...fields, ...rest }))
  const jobs = (maxLength: number) => fc.array(job, { minLength: 1, maxLength })

  const settlement: Arbitrary<LockstepSettlement> = fc.record({
    wrong: seldom(fc.constantFrom('stale' as const, 'forged' as const)),
    outcome: fc.oneof(
      { weight: 11, arbitrary: parts.outcome },
      { weight: 1, arbitrary: fc.record({ to: fc.constant('wait' as const) }) },
    ),
    vanish,
    report: fc.boolean(),
    inserts: seldom(jobs(3)),
  })

  const traffic: Arbitrary<JobTraffic | null> = parts.job.map((one) => trafficOf(one) ?? null)
  const change = fc.oneof(
    fc.constant({}),
    fc.record({ queue }),
    fc.record({ lane: fc.nat(laneCount - 1) }),
    fc.record({ input: fc.constant('"again"'), traffic }),
    fc.record({ input: fc.constant('"again"'), traffic, dedupe: fc.option(dedupe) }),
  )
  const command: Arbitrary<Command> = fc.oneof(
    fc.record({ do: fc.constant('cancel' as const), reason: fc.constant('not wanted'), retain }),
    fc.record({
      do: fc.constant('retry' as const),
      delay: fc.constantFrom(0, 0, 10),
      spacing: fc.constant(0),
      change,
    }),
    fc.record({ do: fc.constantFrom('promote' as const, 'remove' as const) }),
  )

  const setting: Arbitrary<SettingStep> = fc.oneof(
    { weight: 2, arbitrary: parts.setting },
    {
      weight: 1,
      arbitrary: fc.record({
        gate: queue.map((of) => ({ of: 'queue' as const, name: of })),
        change: fc.record({ depth: depthOf(fc) }),
      }),
    },
  )

  const exchange = (settlements: Arbitrary<LockstepSettlement[]>): Arbitrary<LockstepVerb> =>
    fc.record({
      verb: fc.constant('exchange' as const),
      settlements,
      claim: fc.option(parts.claim, { nil: undefined, freq: 6 }),
    })
  const stale = settlement.map((one) => ({ ...one, wrong: 'stale' as const }))
  const others = weightedOthers()
  const write = fc.oneof(
    {
      weight: 11,
      arbitrary: exchange(
        fc.tuple(fc.array(settlement, { maxLength: 4 }), stale).map(([rest, last]) => [...rest, last]),
      ),
    },
    ...others,
  )
  const verb = fc.oneof(
    { weight: 14, arbitrary: exchange(fc.array(settlement, { maxLength: 5 })) },
    { weight: 3, arbitrary: fc.record({ verb: fc.constant('sweep' as const) }) },
    { weight: 1, arbitrary: fc.record({ verb: fc.constant('rescue' as const), vanish }) },
    ...others,
  )
  return { write, verb }

  function weightedOthers(): { weight: number; arbitrary: Arbitrary<LockstepVerb> }[] {
    return [
      { weight: 8, arbitrary: fc.record({ verb: fc.constant('insert' as const), jobs: jobs(6) }) },
      { weight: 1, arbitrary: fc.record({ verb: fc.constant('extend' as const) }) },
      {
        weight: 3,
        arbitrary: fc.record({
          verb: fc.constant('operate on ids' as const),
          ids: fc.array(fc.nat(12), { minLength: 1, maxLength: 4 }),
          command,
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          verb: fc.constant('operate' as const),
          state: fc.constantFrom(...jobStates, 'dead' as const, 'cancelled' as const),
          queue: seldom(queue),
          command,
        }),
      },
      {
        weight: 4,
        arbitrary: fc
          .tuple(setting, fc.boolean())
          .map(([one, declared]) => ({ verb: 'configure' as const, declared, ...one })),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          verb: fc.constant('pause' as const),
          queue: fc.constantFrom(...queues),
          paused: fc.constantFrom(false, false, true),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          verb: fc.constant('breaker' as const),
          job: name,
          to: fc.constantFrom('closed' as const, 'closed' as const, 'open' as const),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          verb: fc.constant('acquire' as const),
          permits: fc.integer({ min: 1, max: 3 }),
          waiter: fc.constantFrom(undefined, 'a', 'b'),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          verb: fc.constant('release' as const),
          gate: fc.oneof(
            name.map((of) => ({ of: 'job' as const, name: of })),
            fc.record({ of: fc.constant('key' as const), job: name, name: fc.constantFrom(...keys) }),
          ),
        }),
      },
    ]
  }
}

function depthOf(fc: FastCheck): Arbitrary<DepthPolicy | null> {
  const mark = fc
    .record({ max: fc.integer({ min: 1, max: 6 }), share: fc.constantFrom(0, 0.5, 0.8) })
    .map(({ max, share }) => ({ max, low: Math.floor(max * share) }))
  const policy = fc
    .record({
      mark,
      lanes: fc.oneof(
        { weight: 3, arbitrary: fc.constant(Array.from({ length: laneCount }, () => null)) },
        { weight: 1, arbitrary: fc.array(fc.option(mark), { minLength: laneCount, maxLength: laneCount }) },
      ),
      overflow: fc.constantFrom('reject' as const, 'wait' as const, 'shed' as const, 'shed' as const),
      defer: fc.constantFrom(0, 20),
      shedAt: fc.constantFrom([1, 0.9, 0.75, 0.5], [1, 1, 1, 0]),
    })
    .map(({ mark: whole, ...rest }) => ({ ...whole, ...rest }))
  return fc.option(policy, { freq: 3 })
}
