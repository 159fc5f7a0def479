import { type JobState, jobStates } from '../core/job.js'
import { laneNames, type Priority } from '../core/lanes.js'
import { type TotalName, totalNames } from '../core/lifecycle.js'
import type { KindCounts } from '../core/store.js'
import type { Runtime } from './runtime.js'

export type StateCounts = Readonly<Record<JobState, number>>
export type Totals = Readonly<Record<TotalName, number>>

export interface Figures {
  readonly states: StateCounts
  /** Since the store was made. */
  readonly totals: Totals
}

export interface Stats extends Figures {
  readonly queues: Readonly<Record<string, Figures & { readonly paused: boolean }>>
  readonly jobs: Readonly<Record<string, Figures>>
  readonly lanes: Readonly<Record<Priority, Figures>>
}

/** The figures of all processes, from counters that every write keeps: reading them counts no rows. */
export async function readStats(runtime: Runtime): Promise<Stats> {
  await runtime.ready()
  const { kinds, paused } = await runtime.store.counts()
  const group = (key: (kind: KindCounts) => string) => {
    const groups = new Map<string, KindCounts[]>()
    for (const kind of kinds) groups.set(key(kind), [...(groups.get(key(kind)) ?? []), kind])
    return [...groups].map(([name, members]) => [name, figures(members)] as const)
  }
  return {
    ...figures(kinds),
    queues: Object.fromEntries(
      group((kind) => kind.queue).map(([name, sums]) => [name, { ...sums, paused: paused.includes(name) }]),
    ),
    jobs: Object.fromEntries(group((kind) => kind.name)),
    lanes: Object.fromEntries(
      laneNames.map((name, lane) => [name, figures(kinds.filter((kind) => kind.lane === lane))]),
    ) as Record<Priority, Figures>,
  }
}

function figures(kinds: readonly KindCounts[]): Figures {
  return {
    states: sumStates(kinds),
    totals: sum(
      totalNames,
      kinds.map((kind) => kind.totals),
    ),
  }
}

export function sumStates(kinds: readonly KindCounts[]): StateCounts {
  return sum(
    jobStates,
    kinds.map((kind) => kind.states),
  )
}

function sum<K extends string>(
  keys: readonly K[],
  rows: readonly Readonly<Record<K, number>>[],
): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, rows.reduce((n, row) => n + row[key], 0)])) as Record<
    K,
    number
  >
}
