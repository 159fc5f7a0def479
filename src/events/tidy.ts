import type { StoredEvent } from './log.js'
import { PartLease } from './part-lease.js'
import type { CompiledPolicy } from './retention.js'
import type { EventRuntime } from './runtime.js'

export interface TidyReport {
  /** Events that were removed, by category. */
  readonly removed: Readonly<Record<string, number>>
  /** There is more to remove: call it again. */
  readonly more: boolean
  /** Another process is at it, so nothing was done here. */
  readonly busy: boolean
}

/** Removes a bounded number of events that their category's policy has no more use for, and all projections have seen. */
export async function tidy(
  runtime: EventRuntime,
  { owner, lease }: { readonly owner: string; readonly lease: number },
): Promise<TidyReport> {
  await runtime.ready()
  if (runtime.retention.size === 0) return { removed: {}, more: false, busy: false }
  const turn = await takeTurn(runtime, owner, lease)
  if (turn === undefined) return { removed: {}, more: false, busy: true }
  try {
    const through = await seenByAll(runtime)
    const removed: Record<string, number> = {}
    let more = false
    for (const [category, policy] of runtime.retention) {
      const count = await tidyCategory(runtime, category, policy, through, turn)
      if (count > 0) removed[category] = count
      more ||= count >= limit * rounds
    }
    return { removed, more, busy: false }
  } finally {
    await turn.release()
  }
}

/** Events that are asked for at a time, and how often in one call. */
const limit = 200
const rounds = 10

async function tidyCategory(
  runtime: EventRuntime,
  category: string,
  policy: CompiledPolicy,
  through: number,
  turn: PartLease,
): Promise<number> {
  let count = 0
  for (let round = 0; round < rounds; round++) {
    const events = await runtime.log.surplus({
      category,
      age: policy.age,
      superseded: policy.do === 'compact',
      through,
      limit,
    })
    if (events.length === 0) break
    await policy.to?.(events.map((event) => runtime.catalogue.decode(event)))
    turn.signal.throwIfAborted()
    await runtime.log.remove(events.map(({ position }: StoredEvent) => position))
    count += events.length
    if (events.length < limit) break
  }
  return count
}

/** Two that archive at the same time would archive twice: who holds this lease does. */
async function takeTurn(runtime: EventRuntime, owner: string, lease: number): Promise<PartLease | undefined> {
  await runtime.log.declare({ name: turnName, parts: 1, after: 0 })
  return PartLease.take(runtime, { name: turnName, generation: 1, part: 0 }, owner, lease)
}

/** No projection: these are Millrace's own. */
const turnName = '$tidy'

export function isOwn(name: string): boolean {
  return name.startsWith('$')
}

/** What one has not seen yet stays, whether it is one of this store's or of another process; so does what is rebuilt from. */
async function seenByAll({ log }: EventRuntime): Promise<number> {
  const positions = (await log.projections())
    .filter(({ name }) => !isOwn(name))
    .flatMap(({ checkpoints }) => checkpoints.map(({ position }) => position))
  return Math.min(await log.end(), ...positions)
}
