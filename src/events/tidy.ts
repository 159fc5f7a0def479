import { archive } from './archive.js'
import { PartLease } from './part-lease.js'
import type { CompiledPolicy } from './retention.js'
import type { EventRuntime } from './runtime.js'
import { isOwn } from './stream-name.js'

export interface TidyReport {
  /** Events that were removed, by category. */
  readonly removed: Readonly<Record<string, number>>
  /** There is more to remove: call it again. */
  readonly more: boolean
  /** Another process is at it, so nothing was done here. */
  readonly busy: boolean
  /** What went wrong, by category; an 'error' of the store has told it, too. The others were tidied. */
  readonly failed: Readonly<Record<string, unknown>>
}

interface TidyOptions {
  readonly owner: string
  readonly lease: number
  /** Ends it. */
  readonly signal: AbortSignal
}

/** Removes a bounded number of events that their category's policy has no more use for, and all projections have seen. */
export async function tidy(
  runtime: EventRuntime,
  { owner, lease, signal }: TidyOptions,
): Promise<TidyReport> {
  await runtime.ready()
  if (runtime.retention.size === 0) return { removed: {}, more: false, busy: false, failed: {} }
  const turn = await takeTurn(runtime, owner, lease)
  if (turn === undefined) return { removed: {}, more: false, busy: true, failed: {} }
  try {
    return await tidyAll(runtime, AbortSignal.any([turn.signal, signal]))
  } finally {
    await turn.release()
  }
}

/** One category's trouble is not the others'. */
async function tidyAll(runtime: EventRuntime, signal: AbortSignal): Promise<TidyReport> {
  const through = await seenByAll(runtime)
  const removed: Record<string, number> = {}
  const failed: Record<string, unknown> = {}
  let more = false
  for (const [category, policy] of runtime.retention) {
    const add = (count: number) => {
      removed[category] = (removed[category] ?? 0) + count
    }
    try {
      if (await tidyCategory(runtime, category, policy, through, signal, add)) more = true
    } catch (error) {
      signal.throwIfAborted()
      failed[category] = error
      runtime.listeners.emit('error', { error, during: `retention of category '${category}'` })
    }
  }
  return { removed, more, busy: false, failed }
}

/** Events that are asked for at a time, and how often in one call; a log looks at some thousands each time. */
const limit = 200
const rounds = 10

/** Whether there is more to look at. */
async function tidyCategory(
  runtime: EventRuntime,
  category: string,
  policy: CompiledPolicy,
  through: number,
  signal: AbortSignal,
  removed: (count: number) => void,
): Promise<boolean> {
  for (let round = 0; round < rounds; round++) {
    const { events, more } = await runtime.log.surplus({
      category,
      age: policy.age,
      superseded: policy.do === 'compact',
      through,
      limit,
    })
    if (events.length > 0) {
      if (policy.do === 'archive') await archive(runtime, category, policy, events, signal)
      signal.throwIfAborted()
      await runtime.log.remove(events.map(({ position }) => position))
      removed(events.length)
    }
    if (!more) return false
  }
  return true
}

/** Two that archive at the same time would archive twice: who holds this lease does. */
async function takeTurn(runtime: EventRuntime, owner: string, lease: number): Promise<PartLease | undefined> {
  await runtime.log.declare({ name: turnName, parts: 1, after: 0 })
  return PartLease.take(runtime, { name: turnName, generation: 1, part: 0 }, owner, lease)
}

/** No projection: these are Millrace's own. */
const turnName = '$tidy'

/** What one has not seen yet stays, whether it is one of this store's or of another process; so does what is rebuilt from. */
async function seenByAll({ log }: EventRuntime): Promise<number> {
  const positions = (await log.projections())
    .filter(({ name }) => !isOwn(name))
    .flatMap(({ checkpoints }) => checkpoints.map(({ position }) => position))
  return Math.min(await log.end(), ...positions)
}
