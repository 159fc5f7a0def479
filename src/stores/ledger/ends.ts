import { shortFailure } from '../../core/failure.js'
import { standsInTheWay, wakesParent } from '../../core/family.js'
import type { FinalState } from '../../core/job.js'
import type { Outcome } from '../../core/lifecycle.js'
import type { Entry } from './entry.js'
import type { Tables } from './tables.js'
import { wake } from './waiting.js'

/** Tells the parents of a job that has ended, whatever way. */
export function childEnded(
  tables: Tables,
  entry: Entry,
  end: FinalState,
  { result, failure }: Pick<Outcome, 'result' | 'failure'>,
  now: number,
): void {
  for (const { id } of entry.job.family?.parents ?? []) {
    const parent = tables.jobs.get(id)
    const parenthood = parent?.story?.parenthood
    const link = parenthood?.links.get(entry.job.id)
    if (parent === undefined || parenthood === undefined || link?.end !== undefined || link === undefined)
      continue
    link.end = end
    link.endedAt = now
    link.result = result
    link.failure = failure && shortFailure(failure)
    parenthood.count(link, -1)
    if (standsInTheWay(end, link.onFailure)) parenthood.countFailed(link)
    const isFirstDeath = link.wakes && end === 'dead' && !parenthood.alarmed
    if (isFirstDeath) parenthood.alarmed = true
    const isAwaited = link.fan === undefined
    const isFanOver = link.fan !== undefined && parenthood.isOver(link.fan)
    const { waiting } = parenthood
    if (wakesParent({ state: parent.state, waiting }, { isFirstDeath, isAwaited, isFanOver }))
      wake(tables, parent, now)
  }
}
