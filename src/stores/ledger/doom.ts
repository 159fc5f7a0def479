import { isFinal } from '../../core/job.js'
import { cancelledRetain } from '../../core/lifecycle.js'
import type { Entry } from './entry.js'
import { hasOpenChildren, type Parenthood } from './parenthood.js'
import type { Tables } from './tables.js'

/** Its children are not needed any more, unless others wait for them too. */
export function doom(tables: Tables, entry: Entry): void {
  const parenthood = entry.story?.parenthood
  if (parenthood === undefined || !hasOpenChildren(entry)) return
  parenthood.doomedFrom = ''
  tables.doomed.add(entry)
}

/** Goes on cancelling children of cancelled jobs, `limit` of them. */
export function cancelDoomed(
  tables: Tables,
  limit: number,
  cancel: (entry: Entry, reason: string, retain: number) => void,
): number {
  let looked = 0
  for (const parent of tables.doomed) {
    if (looked === limit) break
    const parenthood = parent.story?.parenthood as Parenthood
    const reason = parent.story?.cancelReason ?? ''
    const asked = limit - looked
    const links = parenthood.links.after(parenthood.doomedFrom ?? '', asked)
    tables.each(links, ({ child: id, end }) => {
      const child = tables.jobs.get(id)
      if (end === undefined && child !== undefined && isUnwanted(tables, child))
        cancel(child, reason, cancelledRetain)
    })
    looked += links.length
    const isDone = links.length < asked
    parenthood.doomedFrom = isDone ? undefined : links.at(-1)?.child
    if (isDone) tables.doomed.delete(parent)
  }
  return looked
}

function isUnwanted(tables: Tables, child: Entry): boolean {
  return (child.job.family?.parents ?? []).every(({ id }) => {
    const parent = tables.jobs.get(id)
    return parent === undefined || isFinal(parent.state)
  })
}
