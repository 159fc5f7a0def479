import { bounds } from '../../core/bounds.js'
import { isAskedFor, type LinkRecord } from '../../core/family.js'
import type { LinkPage, LinkQuery } from '../../core/store.js'
import type { Link, Links } from './parenthood.js'

/** Looks at a bounded number of links per call; a filter that matches few gets a cursor to go on with. */
export function links(of: (parent: string) => Links | undefined, query: LinkQuery): LinkPage {
  const found: LinkRecord[] = []
  const { prefix = '' } = query
  let [at, after] = startOf(query)
  let looked = 0
  const size = sizeOf(query)
  for (; at < query.parents.length; at++, after = prefix) {
    const links = of(query.parents[at] ?? '')
    for (let page = next(after); page.length > 0; page = next(after)) {
      for (const link of page) {
        if (!link.child.startsWith(prefix)) break
        if (found.length === query.limit || looked === bounds.scan)
          return { links: found, cursor: JSON.stringify([at, after]) }
        looked++
        after = link.child
        if (isAskedFor(link, query)) found.push(recordOf(link))
      }
      if (page.length < size || page.at(-1)?.child !== after) break
    }

    function next(from: string): readonly Link[] {
      return links?.after(from, size) ?? []
    }
  }
  return { links: found, cursor: undefined }
}

/** The place of the parent to begin with, and the child to go on behind. */
export function startOf({ cursor, prefix = '' }: LinkQuery): [parent: number, child: string] {
  return cursor === undefined ? [0, prefix] : (JSON.parse(cursor) as [number, string])
}

/** How many of a parent are read at a time: with the one that tells whether there are more. */
export function sizeOf({ limit }: LinkQuery): number {
  return Math.max(fewest, limit + 1)
}

/** Read at once, however few are asked for: a filter may leave most of them out. */
const fewest = 100

/** Spelt out: a parent may read a hundred thousand of them. */
function recordOf(link: Link): LinkRecord {
  const { parent, child, name, node, fan, onFailure, end, endedAt, result, failure, undo, undone } = link
  return { parent, child, name, node, fan, onFailure, end, endedAt, result, failure, undo, undone }
}
