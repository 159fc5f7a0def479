/** The steps of a traffic run, as data, so that a failing run can be shrunk, printed and replayed. */
import type { Arbitrary } from 'fast-check'
import type { FastCheck } from './model-steps.js'
import {
  type ClaimStep,
  type JobStep,
  type OutcomeStep,
  queues,
  type SettingStep,
  trafficPartsOf,
} from './traffic-parts.js'

export interface TrafficJobStep extends JobStep {
  readonly count: number
}

export type TrafficStep =
  | { readonly step: 'insert'; readonly jobs: readonly TrafficJobStep[] }
  /** The worker settles its oldest runs, one for each outcome, and claims. */
  | {
      readonly step: 'exchange'
      readonly worker: string
      readonly outcomes: readonly OutcomeStep[]
      readonly inserts: TrafficJobStep | undefined
      readonly claim: ClaimStep | undefined
    }
  /** The worker falls silent for a lease, and what it held is rescued. */
  | { readonly step: 'crash'; readonly worker: string }
  | { readonly step: 'sweep' }
  | { readonly step: 'advance'; readonly ms: number }
  | ({ readonly step: 'configure'; readonly declared: boolean } & SettingStep)
  | { readonly step: 'pause'; readonly queue: string; readonly paused: boolean }
  | { readonly step: 'breaker'; readonly job: string; readonly to: 'open' | 'closed' }
  | { readonly step: 'acquire'; readonly permits: number }
  /** On the n-th of the jobs there are, and the ones behind it. */
  | {
      readonly step: 'operate'
      readonly first: number
      readonly count: number
      readonly command: 'cancel' | 'remove' | 'promote' | 'retry' | 'move'
    }

export function trafficStepsOf(fc: FastCheck, most: number): Arbitrary<TrafficStep[]> {
  const { worker, name, job: one, outcome, claim, setting } = trafficPartsOf(fc)
  const job: Arbitrary<TrafficJobStep> = fc
    .tuple(fc.integer({ min: 1, max: 5 }), one)
    .map(([count, fields]) => ({ count, ...fields }))

  const step: Arbitrary<TrafficStep> = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        step: fc.constant('insert' as const),
        jobs: fc.array(job, { minLength: 1, maxLength: 4 }),
      }),
    },
    {
      weight: 14,
      arbitrary: fc.record({
        step: fc.constant('exchange' as const),
        worker,
        outcomes: fc.array(outcome, { maxLength: 5 }),
        inserts: fc.option(job, { nil: undefined, freq: 1 }),
        claim: fc.option(claim, { nil: undefined, freq: 6 }),
      }),
    },
    {
      weight: 6,
      arbitrary: fc.record({
        step: fc.constant('advance' as const),
        ms: fc.constantFrom(1, 1, 2, 5, 9, 10, 35, 90, 150),
      }),
    },
    {
      weight: 7,
      arbitrary: fc
        .tuple(setting, fc.boolean())
        .map(([{ gate, change }, declared]) => ({ step: 'configure' as const, gate, change, declared })),
    },
    { weight: 1, arbitrary: fc.record({ step: fc.constant('crash' as const), worker }) },
    { weight: 2, arbitrary: fc.record({ step: fc.constant('sweep' as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        step: fc.constant('pause' as const),
        queue: fc.constantFrom<string>(...queues),
        paused: fc.boolean(),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        step: fc.constant('breaker' as const),
        job: name,
        to: fc.constantFrom('open' as const, 'closed' as const, 'closed' as const),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        step: fc.constant('acquire' as const),
        permits: fc.integer({ min: 1, max: 3 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('operate' as const),
        first: fc.nat(40),
        count: fc.integer({ min: 1, max: 4 }),
        command: fc.constantFrom(
          'cancel' as const,
          'remove' as const,
          'promote' as const,
          'retry' as const,
          'move' as const,
        ),
      }),
    },
  )
  return fc.array(step, { minLength: 1, maxLength: most, size: 'max' })
}
