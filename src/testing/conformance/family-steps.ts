/** The steps of a random run of families, as data, so that a failing run can be shrunk, printed and replayed. */
import type { Arbitrary } from 'fast-check'
import { type FailurePolicy, failurePolicies } from '../../core/family.js'
import type { FastCheck } from './model-steps.js'

/** A new job; its parents are those of this call, by their places in it, and jobs that came before. */
export interface RelativeStep {
  readonly within: readonly number[]
  readonly earlier: readonly number[]
  readonly policy: FailurePolicy
  readonly wakes: boolean
  readonly open: boolean
}

export type EndStep =
  | 'complete'
  | 'vanish'
  | 'die'
  | 'die of child'
  | 'retry'
  | 'cancel'
  | 'release'
  | 'wait'
  | 'wait for a fan'

/** Fans of a job, by their places. */
const fans = [0, 1] as const

export type FamilyStep =
  | { readonly step: 'insert'; readonly jobs: readonly RelativeStep[] }
  /** The same jobs as in the n-th call back. */
  | { readonly step: 'insert again'; readonly back: number }
  /** Settles the oldest runs, one for each end, with a child of its own if told to; then claims. */
  | {
      readonly step: 'exchange'
      readonly ends: readonly EndStep[]
      readonly child: boolean
      readonly claim: number
    }
  /** The n-th run adds a child to its own job, by a step or not. */
  | {
      readonly step: 'extend'
      readonly run: number
      readonly policy: FailurePolicy
      readonly fan: number | undefined
    }
  /** It goes on from how those of a step have ended. */
  | { readonly step: 'close'; readonly run: number; readonly fan: number }
  | {
      readonly step: 'operate'
      readonly job: number
      readonly command: (typeof commands)[number]
    }
  | { readonly step: 'crash' }
  | { readonly step: 'sweep'; readonly advance: number }

const ends: readonly EndStep[] = [
  'complete',
  'vanish',
  'die',
  'die of child',
  'retry',
  'cancel',
  'release',
  'wait',
  'wait for a fan',
]

const commands = [
  'cancel',
  'cancel and forget',
  'retry',
  'retry afresh',
  'retry later',
  'remove',
  'seal',
] as const

export function familyStepsOf(fc: FastCheck): Arbitrary<FamilyStep[]> {
  const back = fc.nat({ max: 12 })
  const policy = fc.constantFrom(...failurePolicies)
  const relative: Arbitrary<RelativeStep> = fc.record({
    within: fc.uniqueArray(fc.nat({ max: 5 }), { maxLength: 2 }),
    earlier: fc.uniqueArray(back, { maxLength: 1 }),
    policy,
    wakes: fc.boolean(),
    open: fc.boolean(),
  })
  const step: Arbitrary<FamilyStep> = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        step: fc.constant('insert' as const),
        jobs: fc.array(relative, { minLength: 1, maxLength: 6 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ step: fc.constant('insert again' as const), back: fc.nat({ max: 3 }) }),
    },
    {
      weight: 10,
      arbitrary: fc.record({
        step: fc.constant('exchange' as const),
        ends: fc.array(fc.constantFrom(...ends), { maxLength: 4 }),
        child: fc.boolean(),
        claim: fc.nat({ max: 5 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        step: fc.constant('extend' as const),
        run: fc.nat({ max: 3 }),
        policy,
        fan: fc.constantFrom(undefined, ...fans),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('close' as const),
        run: fc.nat({ max: 3 }),
        fan: fc.constantFrom(...fans),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        step: fc.constant('operate' as const),
        job: back,
        command: fc.constantFrom(...commands),
      }),
    },
    { weight: 1, arbitrary: fc.record({ step: fc.constant('crash' as const) }) },
    {
      weight: 2,
      arbitrary: fc.record({ step: fc.constant('sweep' as const), advance: fc.constantFrom(0, 500, 5_000) }),
    },
  )
  return fc.array(step, { minLength: 1, maxLength: 40 })
}
