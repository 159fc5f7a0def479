/** What several shards report, as one. */
import type { ExtendResult, OperateReport, SweepReport, SweepRequest } from '../../../core/store.js'
import type { ShardStore } from '../shard-store.js'

export function mergeExtends(all: readonly ExtendResult[]): ExtendResult {
  const unheard = all.flatMap((one) => one.unheard ?? [])
  return {
    lost: all.flatMap(({ lost }) => lost),
    cancels: all.flatMap(({ cancels }) => cancels),
    open: all.flatMap(({ open }) => open),
    strays: all.flatMap(({ strays }) => strays),
    ...(unheard.length > 0 && { unheard }),
  }
}

/** `others`: what went wrong besides. */
export function mergeSweeps(all: readonly SweepReport[], others: readonly unknown[]): SweepReport {
  const failed = [...others, ...all.flatMap((one) => one.failed ?? [])]
  return {
    promoted: all.reduce((sum, { promoted }) => sum + promoted, 0),
    pruned: all.reduce((sum, { pruned }) => sum + pruned, 0),
    orphans: all.flatMap(({ orphans }) => orphans),
    schedules: all.flatMap(({ schedules }) => schedules),
    nextDue: soonest(all.map(({ nextDue }) => nextDue)),
    nextSlot: soonest(all.map(({ nextSlot }) => nextSlot)),
    more: all.some(({ more }) => more),
    ...(failed.length > 0 && { failed }),
  }
}

function soonest(waits: readonly (number | undefined)[]): number | undefined {
  const known = waits.filter((wait) => wait !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

export function mergeOperations(all: readonly OperateReport[]): OperateReport {
  return {
    affected: all.flatMap(({ affected }) => affected),
    asked: all.flatMap(({ asked }) => asked),
    missing: all.flatMap(({ missing }) => missing),
    refused: all.flatMap(({ refused }) => refused),
    cursor: undefined,
  }
}

type Keep = SweepRequest['keep']

/** Of the finished jobs that are kept in all, each shard keeps as many as its part of them is. */
export async function shareOfKept(shards: readonly ShardStore[], keep: Keep): Promise<Keep[]> {
  const finished = await Promise.all(shards.map(finishedIn))
  const completed = sharesOf(
    finished.map((count) => count.completed),
    keep.completed,
  )
  const dead = sharesOf(
    finished.map((count) => count.dead),
    keep.dead,
  )
  return shards.map((_, i) => ({ completed: completed[i] as number, dead: dead[i] as number }))
}

async function finishedIn(shard: ShardStore): Promise<Keep> {
  const { kinds } = await shard.counts()
  return {
    completed: Math.max(
      sumOf(kinds.map(({ states }) => states.completed)),
      sumOf(kinds.map(({ states }) => states.cancelled)),
    ),
    dead: sumOf(kinds.map(({ states }) => states.dead)),
  }
}

function sharesOf(counts: readonly number[], keep: number): number[] {
  const total = sumOf(counts)
  if (total <= keep) return counts.map(() => keep)
  return counts.map((count) => Math.floor((keep * count) / total))
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}
