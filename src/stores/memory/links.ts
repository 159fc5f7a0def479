import { bounds } from '../../core/bounds.js'
import { isAskedFor, type LinkRecord } from '../../core/family.js'
import type { LinkPage, LinkQuery } from '../../core/store.js'
import type { Link } from './parenthood.js'
import type { Tables } from './tables.js'

/** Looks at a bounded number of links per call; a filter that matches few gets a cursor to go on with. */
export function links(tables: Tables, query: LinkQuery): LinkPage {
  const found: LinkRecord[] = []
  const { prefix = '' } = query
  let [at, after] = query.cursor === undefined ? [0, prefix] : (JSON.parse(query.cursor) as [number, string])
  let looked = 0
  for (; at < query.parents.length; at++, after = prefix) {
    const all = tables.jobs.get(query.parents[at] ?? '')?.story?.parenthood?.links ?? []
    for (let i = firstAfter(all, after); i < all.length; i++) {
      const link = all[i] as Link
      if (!link.child.startsWith(prefix)) break
      if (found.length === query.limit || looked === bounds.scan)
        return { links: found, cursor: JSON.stringify([at, after]) }
      looked++
      after = link.child
      if (isAskedFor(link, query)) found.push(recordOf(link))
    }
  }
  return { links: found, cursor: undefined }
}

/** Spelt out: a parent may read a hundred thousand of them. */
function recordOf(link: Link): LinkRecord {
  const { parent, child, name, node, fan, onFailure, end, endedAt, result, failure, undo, undone } = link
  return { parent, child, name, node, fan, onFailure, end, endedAt, result, failure, undo, undone }
}

function firstAfter(links: readonly Link[], child: string): number {
  let [low, high] = [0, links.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((links[middle] as Link).child <= child) low = middle + 1
    else high = middle
  }
  return low
}
