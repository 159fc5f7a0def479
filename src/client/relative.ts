import { type AnyJob, parseInput } from '../core/definition.js'
import type { NewJob } from '../core/job.js'
import { cannotDedupe, type NodeOptions } from '../core/plan.js'
import { encodeInput, newJob } from './new-job.js'
import { placement } from './placement.js'
import type { Runtime } from './runtime.js'

/** A job that is to be part of a family: checked, encoded and placed. A promise only if its schema gives one. */
export function relative(
  runtime: Runtime,
  job: AnyJob,
  input: unknown,
  options: NodeOptions | undefined,
  id: string | undefined,
): NewJob | Promise<NewJob> {
  const checked = parseInput(job, input)
  return checked instanceof Promise ? checked.then(make) : make()

  function make(): NewJob {
    const place = placement(job, input, options)
    if (place?.dedupe !== undefined) throw cannotDedupe(job.name)
    return newJob(runtime, job, encodeInput(runtime, input), place, options, id)
  }
}
