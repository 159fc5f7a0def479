import { type ClaimedJob, type Duration, type JobDefinition, NonRetryableError } from 'millrace'
import { defineSaga } from 'millrace/saga'
import type { TestMill } from 'millrace/testing'
import { expect } from 'vitest'
import { claimAs, storeOf, testMill } from './mill.js'

const fixed = { type: 'fixed', initialDelay: '1s', jitter: 'none' } as const
export const quick = { backoff: fixed, compensation: { maxAttempts: 3, backoff: fixed } }

export const no = () => {
  throw new NonRetryableError('no')
}

/** Ends when it is told to stop. */
export const hang = ({ signal: stop }: { signal: AbortSignal }) =>
  new Promise<never>((_, reject) => stop.addEventListener('abort', () => reject(stop.reason)))

/** A saga whose second step fails, so that this undoes the first. */
export function undoneBy(
  compensate: (context: { signal: AbortSignal }) => unknown,
  options: { timeout?: Duration } = {},
) {
  return defineSaga({
    name: 'undone',
    ...quick,
    ...options,
    steps: [
      { name: 'a', run: () => 1, compensate },
      { name: 'b', run: no, compensate: () => {} },
    ],
  })
}

/** A mill that knows this job, and one such job in it. */
export async function enqueued<Input, Parsed, Result>(
  definition: JobDefinition<Input, Parsed, Result>,
  input: Input,
) {
  const mill = testMill({ jobs: [definition] })
  return { mill, job: await mill.enqueue(definition, input) }
}

/** The next try of the only job is made by a worker that writes these steps, and is never heard of again. */
export async function lastSeenIn(
  mill: TestMill,
  worker: string,
  written: Record<string, unknown>,
): Promise<void> {
  await mill.clock.advance(1_000)
  await storeOf(mill).sweep({ limit: 10, keep: { completed: 10, dead: 10 } })
  await vanishIn(mill, worker, written)
  await mill.clock.advance(40_000)
}

/** A worker claims the only job, writes these steps, and is never heard of again. */
async function vanishIn(mill: TestMill, worker: string, written: Record<string, unknown>): Promise<void> {
  const [{ id, token }] = (await claimAs(mill, worker, 1)) as [ClaimedJob]
  const steps = Object.entries(written).map(([name, value]) => ({
    ...{ name, value: JSON.stringify(value), open: false, until: undefined, signal: undefined, at: 0 },
  }))
  const held = [{ id, token, progress: undefined, logs: undefined, steps }]
  expect((await storeOf(mill).extend({ worker, lease: 30_000, held })).lost).toEqual([])
}
