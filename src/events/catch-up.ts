import { type Duration, milliseconds } from '../core/duration.js'
import { MillraceError } from '../core/errors.js'
import { newToken } from '../system/ids.js'
import type { Projection } from './define-projection.js'
import { checkpointsOf, positionOf, recordOf } from './generations.js'
import { PartLease, type PartRef } from './part-lease.js'
import { PartRun } from './part-run.js'
import { HandlerFailed } from './round.js'
import type { EventRuntime } from './runtime.js'
import { Wakes } from './wakes.js'
import { workerDefaults } from './worker-options.js'

/** Runs these projections here, beside any workers, until they have seen all that is there now. */
export async function catchUp(runtime: EventRuntime, projections: readonly Projection[]): Promise<void> {
  await runtime.ready()
  const end = await runtime.log.end()
  const owner = `catch-up-${newToken().slice(0, 12)}`
  const all = projections.map(async (projection) => {
    const { live, parts } = await recordOf(runtime, projection)
    const refs = Array.from({ length: parts }, (_, part) => ({
      name: projection.name,
      generation: live,
      part,
    }))
    await settled(refs.map((ref) => catchUpPart(runtime, projection, ref, owner, end)))
  })
  await settled(all)
}

/** All of them have ended before one's error is thrown. */
async function settled(all: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(all)) if (result.status === 'rejected') throw result.reason
}

async function catchUpPart(
  runtime: EventRuntime,
  projection: Projection,
  ref: PartRef,
  owner: string,
  end: number,
): Promise<void> {
  const wakes = new Wakes(runtime.clock)
  for (;;) {
    const lease = await PartLease.take(runtime, ref, owner, leaseMs)
    if (lease !== undefined) return work(runtime, projection, lease, end)
    const record = await recordOf(runtime, projection)
    const part = checkpointsOf(record, ref.generation).find((checkpoint) => checkpoint.part === ref.part)
    // A worker is at it, or another generation has taken its place.
    if (part === undefined) return catchUp(runtime, [projection])
    if (part.position >= end) return
    await wakes.next(pollMs)
  }
}

async function work(
  runtime: EventRuntime,
  projection: Projection,
  lease: PartLease,
  end: number,
): Promise<void> {
  const run = new PartRun(runtime, projection, lease, { batch: workerDefaults.batch, poll: pollMs })
  try {
    await run.upTo(end)
  } catch (error) {
    throw error instanceof HandlerFailed ? error.cause : error
  } finally {
    await lease.release()
  }
}

const leaseMs = milliseconds(workerDefaults.lease, 'lease')

export interface ReachedOptions {
  /** Then it rejects with WAIT_TIMEOUT. @default it waits for as long as it takes */
  readonly timeout?: Duration
}

/** Resolves when the live generation has seen everything up to this position. */
export async function reached(
  runtime: EventRuntime,
  projection: Projection,
  position: number,
  { timeout }: ReachedOptions = {},
): Promise<void> {
  await runtime.ready()
  const { clock } = runtime
  const patience = timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds(timeout, 'timeout')
  const until = clock.monotonic() + patience
  const wakes = new Wakes(clock)
  for (let pause = 2; ; pause = Math.min(pause * 2, longestPause)) {
    const record = await recordOf(runtime, projection)
    const seen = positionOf(record, record.live)
    if (seen >= position) return
    const left = until - clock.monotonic()
    if (left <= 0) throw late(projection, position, seen, patience)
    await wakes.next(Math.min(pause, left))
  }
}

const pollMs = 20
const longestPause = 100

function late({ name }: Projection, position: number, seen: number, patience: number): MillraceError {
  return new MillraceError(
    'WAIT_TIMEOUT',
    `projection '${name}' has seen ${seen} and not ${position} after ${patience} ms; does a worker run it?`,
    { field: 'position', value: seen, limit: position },
  )
}
