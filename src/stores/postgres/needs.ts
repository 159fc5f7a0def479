import { Needs } from './page/needs.js'

/** What the desk is sure to need for what a worker says of these jobs. */
export function deskNeeds(worker: string, ids: Iterable<string>): Needs {
  const needs = new Needs()
  needs.key('worker', worker)
  for (const id of ids) {
    needs.key('job', id)
    needs.key('kin', id)
  }
  return needs
}
