/** The steps of a flow run, as data, so that a failing run can be shrunk, printed and replayed. */
import type { Arbitrary } from 'fast-check'
import type { FlowChange, GateRef } from '../../core/flow/settings.js'
import { laneCount } from '../../core/lanes.js'
import type { FastCheck } from './model-steps.js'

export const queues = ['main', 'other'] as const
export const names = ['plain', 'mail', 'scan'] as const
export const groups = ['a', 'b', 'c'] as const
export const keys = ['k', 'l'] as const
export const limiter = 'api'
const windows = [3, 10, 40, 100, 1_000]
export const longestWindow = Math.max(...windows)

export interface FlowJobStep {
  readonly count: number
  readonly queue: string
  readonly name: string
  readonly lane: number
  readonly group: string | undefined
  readonly key: string | undefined
  readonly delay: number
}

export type OutcomeStep =
  | { readonly to: 'complete' | 'vanish' | 'die' | 'stop' | 'release' | 'excused' }
  | { readonly to: 'retry' | 'snooze' | 'hold'; readonly delay: number }

export interface FlowClaimStep {
  readonly count: number
  readonly queues: readonly string[]
  readonly strict: boolean
}

export type FlowStep =
  | { readonly step: 'insert'; readonly jobs: readonly FlowJobStep[] }
  /** The worker settles its oldest runs, one for each outcome, and claims. */
  | {
      readonly step: 'exchange'
      readonly worker: string
      readonly outcomes: readonly OutcomeStep[]
      readonly inserts: FlowJobStep | undefined
      readonly claim: FlowClaimStep | undefined
    }
  /** The worker falls silent for a lease, and what it held is rescued. */
  | { readonly step: 'crash'; readonly worker: string }
  | { readonly step: 'sweep' }
  | { readonly step: 'advance'; readonly ms: number }
  | {
      readonly step: 'configure'
      readonly gate: GateRef
      readonly change: FlowChange
      readonly declared: boolean
    }
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

export function flowStepsOf(fc: FastCheck, most: number): Arbitrary<FlowStep[]> {
  const maybe = <T>(arbitrary: Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 })
  const worker = fc.constantFrom('v', 'w', 'x')
  const queue = fc.oneof(
    { weight: 3, arbitrary: fc.constant<string>('main') },
    { weight: 1, arbitrary: fc.constantFrom<string>(...queues) },
  )
  const name = fc.constantFrom<string>(...names)
  const group = fc.constantFrom<string>(...groups)
  const key = fc.constantFrom<string>(...keys)
  const delay = fc.constantFrom(0, 0, 0, 5, 20)

  const job: Arbitrary<FlowJobStep> = fc.record({
    count: fc.integer({ min: 1, max: 5 }),
    queue,
    name,
    lane: fc.oneof({ weight: 2, arbitrary: fc.constant(2) }, { weight: 1, arbitrary: fc.nat(laneCount - 1) }),
    group: maybe(group),
    key: maybe(key),
    delay,
  })
  const outcome: Arbitrary<OutcomeStep> = fc.oneof(
    { weight: 5, arbitrary: fc.record({ to: fc.constantFrom('complete' as const, 'vanish' as const) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        to: fc.constantFrom('die' as const, 'stop' as const, 'release' as const, 'excused' as const),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        to: fc.constantFrom('retry' as const, 'snooze' as const, 'hold' as const),
        delay: fc.constantFrom(0, 5, 30),
      }),
    },
  )
  const claim: Arbitrary<FlowClaimStep> = fc.record({
    count: fc.integer({ min: 1, max: 8 }),
    queues: fc.constantFrom(['main'], ['main', 'other'], ['other', 'main'], ['other']),
    strict: fc.boolean(),
  })

  const rate = fc
    .record({
      max: fc.integer({ min: 1, max: 4 }),
      per: fc.constantFrom(...windows),
      share: fc.constantFrom(1, 1, 1, 0.5),
    })
    .map(({ max, per, share }) => ({ max, per, burst: Math.max(1, Math.floor(max * share)) }))
  const concurrency = fc.integer({ min: 0, max: 3 })
  const limit = fc.oneof(
    { weight: 2, arbitrary: fc.constant(null) },
    { weight: 3, arbitrary: fc.record({ concurrency }) },
    { weight: 3, arbitrary: fc.record({ rate }) },
    { weight: 1, arbitrary: fc.record({ rate, concurrency }) },
  )
  const breaker = fc.oneof(
    fc.constant(null),
    fc.record({
      failureRate: fc.constantFrom(0.5, 1),
      minimum: fc.integer({ min: 1, max: 3 }),
      window: fc.constantFrom(20, 200),
      cooldown: fc.constantFrom(10, 50),
      probes: fc.integer({ min: 1, max: 2 }),
    }),
  )
  const settings: Arbitrary<{ gate: GateRef; change: FlowChange }> = fc.oneof(
    fc.record({
      gate: queue.map((of): GateRef => ({ of: 'queue', name: of })),
      change: fc.oneof(fc.record({ limit }), fc.record({ each: limit })),
    }),
    fc.record({
      gate: name.map((of): GateRef => ({ of: 'job', name: of })),
      change: fc.oneof(
        fc.record({ limit }),
        fc.record({ each: limit }),
        fc.record({ breaker }),
        fc.record({ limiter: fc.constantFrom(limiter, null) }),
      ),
    }),
    fc.record({
      gate: fc.tuple(queue, group).map(([of, one]): GateRef => ({ of: 'group', queue: of, name: one })),
      change: own(),
    }),
    fc.record({
      gate: fc.tuple(name, key).map(([of, one]): GateRef => ({ of: 'key', job: of, name: one })),
      change: own(),
    }),
    fc.record({
      gate: fc.constant<GateRef>({ of: 'limiter', name: limiter }),
      change: fc.record({ limit: fc.oneof(fc.constant(null), fc.record({ rate })) }),
    }),
  )
  function own(): Arbitrary<FlowChange> {
    return fc.oneof(
      fc.record({ limit }),
      fc.record({ paused: fc.constantFrom(true, false, null) }),
      fc.record({ weight: fc.constantFrom(1, 2, 3, null) }),
    )
  }

  const step: Arbitrary<FlowStep> = fc.oneof(
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
        .tuple(settings, fc.boolean())
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
