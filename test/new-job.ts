import type { NewJob } from 'millrace'
import { newJob as anyJob } from '../src/testing/conformance/helpers.js'

/** A job as a store gets it, with nothing special to it. */
export function newJob(fields: Partial<NewJob> & { readonly id: string }): NewJob {
  return anyJob({ name: 'mail', input: 'null', ...fields })
}
