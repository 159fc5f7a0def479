/** Jobs that Millrace itself runs; every worker knows them. */
import { type AnyJob, defineJob } from '../core/definition.js'
import type { NewJob } from '../core/job.js'

/** They run no code of others: workers that are lost with them say nothing against them. */
const lasting = { maxAttempts: 100, maxCrashes: 100 }

/** Ends a flow that has several last jobs, or one whose failure is to undo the others. Gives the result of a single one. */
export const joinJob = defineJob({
  name: 'millrace/join',
  ...lasting,
  async run(_: null, { children }): Promise<unknown> {
    const results: unknown[] = []
    for await (const { result } of children()) results.push(result)
    return results.length === 1 ? results[0] : undefined
  },
})

export const callbacks = ['onComplete', 'onSuccess', 'onDead'] as const

/** What a batch adds when something has become of it. */
export type BatchInput = { [K in (typeof callbacks)[number]]?: NewJob } & {
  /** Milliseconds from its creation after which it is sealed. */
  readonly patience: number
}

/** Waits for the jobs of a batch. It is never called: the worker decides what a batch that wakes does. */
export const batchJob = defineJob({ name: 'millrace/batch', ...lasting, run(_: BatchInput) {} })

export const builtInJobs: ReadonlyMap<string, AnyJob> = new Map<string, AnyJob>(
  [joinJob, batchJob].map((job) => [job.name, job]),
)
