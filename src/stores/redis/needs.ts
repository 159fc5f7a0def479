import { Needs } from '../page/needs.js'

/** What the desk is sure to need for what a worker says of jobs that it holds, or believes to hold. */
export function deskNeeds(worker: string, held: Iterable<{ readonly id: string }>): Needs {
  const needs = new Needs()
  needs.key('worker', worker)
  for (const { id } of held) {
    needs.key('job', id)
    needs.key('kin', id)
  }
  return needs
}
