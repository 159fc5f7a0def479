import type { NewJob } from 'millrace'

/** A job as a store gets it, with nothing special to it. */
export function newJob(fields: Partial<NewJob> & { readonly id: string }): NewJob {
  return {
    name: 'mail',
    queue: 'main',
    lane: 2,
    input: 'null',
    delay: 0,
    runAt: undefined,
    maxAttempts: 3,
    maxCrashes: 3,
    overrides: undefined,
    tags: undefined,
    metadata: undefined,
    traffic: undefined,
    dedupe: undefined,
    family: undefined,
    guard: undefined,
    ...fields,
  }
}
