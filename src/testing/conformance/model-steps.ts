/**
 * The steps of a model run, as data: small numbers that stand for jobs, leases and choices, so that
 * fast-check can shrink a failing run to the few steps that matter and print them.
 */
import type { Arbitrary } from 'fast-check'
import { type JobState, jobStates } from '../../core/job.js'
import { laneCount } from '../../core/lanes.js'

export type FastCheck = typeof import('fast-check')

export interface JobStep {
  readonly id: number
  readonly queue: number
  readonly name: number
  readonly lane: number
  readonly delay: number
  /** Relative to now; wins over `delay`. */
  readonly runAt: number | undefined
  readonly maxCrashes: number
  readonly extras: boolean
}

export type OutcomeStep =
  | { readonly to: 'complete'; readonly result: string | undefined; readonly retain: number }
  | { readonly to: 'retry'; readonly delay: number; readonly cause: number }
  | { readonly to: 'die'; readonly retain: number; readonly cause: number }
  | { readonly to: 'stop'; readonly retain: number }
  | { readonly to: 'release' | 'wait' }
  | { readonly to: 'snooze'; readonly delay: number }

export interface SettleStep {
  /** Which of the leases ever given, newest first: settled, stolen and repeated ones come up by themselves. */
  readonly lease: number
  readonly impostor: boolean
  readonly forged: boolean
  readonly outcome: OutcomeStep
  readonly inserts: readonly JobStep[] | undefined
  readonly report: boolean
}

export interface ClaimStep {
  readonly shared: number
  readonly own: readonly number[]
  /** One for each queue of each lane. */
  readonly takes: readonly number[]
  readonly otherQueueFirst: boolean
  readonly lease: number
}

export interface FilterStep {
  readonly state: JobState
  readonly queue: number | undefined
  readonly name: number | undefined
  readonly tag: boolean
  readonly cause: number | undefined
  /** Relative to now. */
  readonly after: number | undefined
  readonly before: number | undefined
}

export type CommandStep =
  | { readonly do: 'cancel'; readonly retain: number }
  | { readonly do: 'retry'; readonly delay: number; readonly spacing: number; readonly change: ChangeStep }
  | { readonly do: 'promote' | 'remove' }

interface ChangeStep {
  readonly queue: number | undefined
  readonly lane: number | undefined
  readonly input: boolean
}

interface HeldStep {
  readonly lease: number
  readonly forged: boolean
  readonly progress: string | undefined
  readonly logs: number
}

export type Step =
  | { readonly step: 'insert'; readonly jobs: readonly JobStep[] }
  | {
      readonly step: 'exchange'
      readonly worker: number
      readonly settlements: readonly SettleStep[]
      readonly claim: ClaimStep | undefined
      readonly rescue: boolean
    }
  | { readonly step: 'claim again'; readonly claim: number }
  /** All jobs of one claim settled alike in one call, as a busy worker does. */
  | {
      readonly step: 'settle all'
      readonly claim: number
      readonly impostor: boolean
      readonly forged: boolean
      readonly release: boolean
      readonly result: string | undefined
      readonly retain: number
    }
  | {
      readonly step: 'extend'
      readonly worker: number
      readonly lease: number
      readonly held: readonly HeldStep[]
    }
  | { readonly step: 'sweep'; readonly limit: number; readonly completed: number; readonly dead: number }
  | { readonly step: 'rescue'; readonly retain: number }
  /** All workers fall silent for a lease, and what they held is rescued. */
  | { readonly step: 'crash'; readonly retain: number }
  | { readonly step: 'operate on ids'; readonly ids: readonly number[]; readonly command: CommandStep }
  | {
      readonly step: 'operate'
      readonly filter: FilterStep
      readonly limit: number
      readonly command: CommandStep
    }
  | { readonly step: 'configure'; readonly queue: number; readonly paused: boolean }
  | { readonly step: 'advance'; readonly ms: number }

export function stepsOf(fc: FastCheck): Arbitrary<Step[]> {
  const weighted = <T>(arbitrary: Arbitrary<T>, weight: number, not: number): Arbitrary<T | undefined> =>
    fc.oneof({ weight: not, arbitrary: fc.constant(undefined) }, { weight, arbitrary })
  const mostly = <T>(arbitrary: Arbitrary<T>) => weighted(arbitrary, 3, 1)
  const sometimes = <T>(arbitrary: Arbitrary<T>) => weighted(arbitrary, 1, 1)
  const seldom = <T>(arbitrary: Arbitrary<T>) => weighted(arbitrary, 1, 4)
  const rarely = fc.nat(9).map((n) => n === 9)
  const queue = fc.nat(1)
  const name = fc.nat(1)
  const lane = fc.oneof(
    { weight: 1, arbitrary: fc.constant(2) },
    { weight: 1, arbitrary: fc.nat(laneCount - 1) },
  )
  const cause = fc.nat(1)
  const lease = fc.oneof({ weight: 4, arbitrary: fc.nat(4) }, { weight: 1, arbitrary: fc.nat(30) })
  const leaseMs = fc.constantFrom(50, 20)
  const delay = fc.constantFrom(0, 1, 5, 10, 50)
  const retain = fc.constantFrom(10_000, 0, 10, 50)

  const job: Arbitrary<JobStep> = fc.record({
    id: fc.nat(7),
    queue,
    name,
    lane,
    delay: fc.oneof(
      { weight: 2, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.constantFrom(1, 5, 10, 2 ** 33) },
    ),
    runAt: seldom(fc.constantFrom(0, -5, 1, 20)),
    maxCrashes: fc.integer({ min: 1, max: 3 }),
    extras: fc.boolean(),
  })
  const jobs = (maxLength: number) => fc.array(job, { minLength: 1, maxLength })

  const outcome: Arbitrary<OutcomeStep> = fc.oneof(
    fc.record({
      to: fc.constant('complete' as const),
      result: sometimes(fc.constantFrom('1', '"two"')),
      retain,
    }),
    fc.record({ to: fc.constant('retry' as const), delay, cause }),
    fc.record({ to: fc.constant('die' as const), retain, cause }),
    fc.record({ to: fc.constant('stop' as const), retain }),
    fc.record({ to: fc.constantFrom('release' as const, 'wait' as const) }),
    fc.record({ to: fc.constant('snooze' as const), delay }),
  )
  const settlement: Arbitrary<SettleStep> = fc.record({
    lease,
    impostor: rarely,
    forged: rarely,
    outcome,
    inserts: seldom(jobs(2)),
    report: fc.boolean(),
  })
  const claim: Arbitrary<ClaimStep> = fc.record({
    shared: fc.nat(4),
    own: fc.array(fc.constantFrom(0, 0, 0, 1, 2), { minLength: laneCount, maxLength: laneCount }),
    takes: fc.array(fc.nat(3), { minLength: 2 * laneCount, maxLength: 2 * laneCount }),
    otherQueueFirst: fc.boolean(),
    lease: leaseMs,
  })
  const held: Arbitrary<HeldStep> = fc.record({
    lease,
    forged: rarely,
    progress: sometimes(fc.constantFrom('1', '2')),
    logs: fc.nat(2),
  })
  const filter: Arbitrary<FilterStep> = fc.record({
    state: fc.constantFrom(...jobStates),
    queue: seldom(queue),
    name: seldom(name),
    tag: rarely,
    cause: seldom(cause),
    after: seldom(fc.constantFrom(0, -10, 10)),
    before: seldom(fc.constantFrom(0, 1, 20)),
  })
  const command: Arbitrary<CommandStep> = fc.oneof(
    fc.record({ do: fc.constant('cancel' as const), retain }),
    fc.record({
      do: fc.constant('retry' as const),
      delay: fc.constantFrom(0, 0, 10),
      spacing: fc.constantFrom(0, 0, 5),
      change: fc.record({ queue: seldom(queue), lane: seldom(lane), input: fc.boolean() }),
    }),
    fc.record({ do: fc.constantFrom('promote' as const, 'remove' as const) }),
  )

  const step: Arbitrary<Step> = fc.oneof(
    { weight: 4, arbitrary: fc.record({ step: fc.constant('insert' as const), jobs: jobs(5) }) },
    {
      weight: 9,
      arbitrary: fc.record({
        step: fc.constant('exchange' as const),
        worker: fc.nat(2),
        settlements: fc.array(settlement, { maxLength: 4 }),
        claim: mostly(claim),
        rescue: rarely,
      }),
    },
    { weight: 1, arbitrary: fc.record({ step: fc.constant('claim again' as const), claim: fc.nat(3) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('settle all' as const),
        claim: fc.nat(2),
        impostor: rarely,
        forged: rarely,
        release: rarely,
        result: sometimes(fc.constant('1')),
        retain,
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('extend' as const),
        worker: fc.nat(2),
        lease: leaseMs,
        held: fc.array(held, { maxLength: 3 }),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        step: fc.constant('sweep' as const),
        limit: fc.constantFrom(100, 1, 2),
        completed: fc.constantFrom(100, 0, 2),
        dead: fc.constantFrom(100, 0, 2),
      }),
    },
    { weight: 1, arbitrary: fc.record({ step: fc.constant('rescue' as const), retain }) },
    { weight: 1, arbitrary: fc.record({ step: fc.constant('crash' as const), retain }) },
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('operate on ids' as const),
        ids: fc.array(fc.nat(8), { maxLength: 5 }),
        command,
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        step: fc.constant('operate' as const),
        filter,
        limit: fc.constantFrom(100, 1, 2),
        command,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ step: fc.constant('configure' as const), queue, paused: fc.boolean() }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        step: fc.constant('advance' as const),
        ms: fc.constantFrom(1, 4, 5, 9, 10, 19, 20, 49, 50),
      }),
    },
  )
  return fc.array(step, { minLength: 1, maxLength: 40, size: 'max' })
}
