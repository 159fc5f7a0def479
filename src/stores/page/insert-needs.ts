import type { NewJob } from '../../core/job.js'
import { Needs } from './needs.js'

/** What the desk is sure to need for new jobs: those that have their ids, their parents, and links to them. */
export function insertNeeds(jobs: readonly NewJob[], fresh: ReadonlySet<string>): Needs {
  const needs = new Needs()
  for (const { id, family } of jobs) {
    const isFresh = fresh.has(id)
    if (!isFresh) needs.key('job', id)
    for (const { id: parent } of family?.parents ?? []) {
      if (!fresh.has(parent)) needs.key('job', parent)
      if (!isFresh) needs.key('tie', `${parent}\n${id}`)
    }
  }
  needs.positions = jobs.length
  return needs
}
