/** Jobs that Millrace itself runs; every worker knows them. */
import { type AnyJob, defineJob } from '../core/definition.js'

/** Ends a flow that has several last jobs: it waits for all of them. */
export const joinJob = defineJob({ name: 'millrace/join', run() {} })

export const builtInJobs: ReadonlyMap<string, AnyJob> = new Map([[joinJob.name, joinJob]])
