import { readToken } from '../ledger/token.js'
import { Needs } from '../page/needs.js'

interface Held {
  readonly id: string
  readonly token: string
}

/** What the desk is sure to need for what a worker says of jobs that it holds, or believes to hold. */
export function deskNeeds(worker: string, held: Iterable<Held>): Needs {
  const needs = new Needs()
  // First, because the leases tell which of the jobs run.
  needs.key('worker', worker)
  for (const { id, token } of held) {
    const lease = readToken(id, token)
    if (lease === undefined) {
      needs.key('job', id)
      needs.key('kin', id)
    } else needs.key('running', String(lease.seq))
  }
  return needs
}
