import type { NewJob } from '../../core/job.js'
import { Needs } from '../page/needs.js'

/** What the desk is sure to need for new jobs: those that have their ids, their parents, and links to them. */
export function insertNeeds(jobs: readonly NewJob[]): Needs {
  const needs = new Needs()
  for (const { id, family } of jobs) {
    needs.key('job', id)
    for (const { id: parent } of family?.parents ?? []) {
      needs.key('job', parent)
      needs.key('tie', `${parent}\n${id}`)
    }
  }
  needs.positions = jobs.length
  return needs
}

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
