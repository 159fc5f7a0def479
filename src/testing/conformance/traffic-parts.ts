/** What random runs with traffic control are made of: jobs, outcomes, claims and settings, as data. */
import type { Arbitrary } from 'fast-check'
import { laneCount } from '../../core/lanes.js'
import type { GateRef, JobTraffic, TrafficChange } from '../../core/traffic/settings.js'
import type { FastCheck } from './model-steps.js'

export const queues = ['main', 'other'] as const
export const names = ['plain', 'mail', 'scan'] as const
export const groups = ['a', 'b', 'c'] as const
export const keys = ['k', 'l'] as const
export const limiter = 'api'
const windows = [3, 10, 40, 100, 1_000]
export const longestWindow = Math.max(...windows)

export interface JobStep {
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

export interface ClaimStep {
  readonly count: number
  readonly queues: readonly string[]
  readonly strict: boolean
}

export interface SettingStep {
  readonly gate: GateRef
  readonly change: TrafficChange
}

export function trafficPartsOf(fc: FastCheck) {
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

  const job: Arbitrary<JobStep> = fc.record({
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
  const claim: Arbitrary<ClaimStep> = fc.record({
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
  const setting: Arbitrary<SettingStep> = fc.oneof(
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
  function own(): Arbitrary<TrafficChange> {
    return fc.oneof(
      fc.record({ limit }),
      fc.record({ paused: fc.constantFrom(true, false, null) }),
      fc.record({ weight: fc.constantFrom(1, 2, 3, null) }),
    )
  }

  return { worker, queue, name, job, outcome, claim, setting }
}

/** Only one definition's code declares limits. */
export function trafficOf({ name, group, key }: JobStep): JobTraffic | undefined {
  const gated = name === 'mail'
  return gated || group !== undefined || key !== undefined ? { gated, group, key } : undefined
}
