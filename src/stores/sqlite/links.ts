import { bounds } from '../../core/bounds.js'
import { type FailurePolicy, isAskedFor, type LinkRecord } from '../../core/family.js'
import type { Failure, FinalState } from '../../core/job.js'
import type { LinkPage, LinkQuery } from '../../core/store.js'
import { parse } from './parse.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'

type LinkRow = [
  child: string,
  name: string,
  node: string | null,
  onFailure: FailurePolicy,
  state: number | null,
  endedAt: number | null,
  result: string | null,
  failure: string | null,
  undo: string | null,
  fan: string | null,
  undone: number,
]

/** Looks at a bounded number of links per call; a filter that matches few gets a cursor to go on with. */
export function makeLinks({ db }: Tables): (query: LinkQuery) => LinkPage {
  const select = db.prepare<[string, string, number], LinkRow>(sql.links).raw()
  return (query) => {
    const found: LinkRecord[] = []
    const { prefix = '' } = query
    let [at, after] =
      query.cursor === undefined ? [0, prefix] : (JSON.parse(query.cursor) as [number, string])
    let looked = 0
    for (; at < query.parents.length; at++, after = prefix) {
      for (;;) {
        const size = Math.min(query.limit, bounds.page)
        const parent = query.parents[at] ?? ''
        const rows = select.all(parent, after, size).filter(([child]) => child.startsWith(prefix))
        for (const row of rows) {
          if (found.length === query.limit || looked === bounds.scan)
            return { links: found, cursor: JSON.stringify([at, after]) }
          looked++
          after = row[0]
          const link = recordOf(parent, row)
          if (isAskedFor(link, query)) found.push(link)
        }
        if (rows.length < size) break
      }
    }
    return { links: found, cursor: undefined }
  }
}

function recordOf(parent: string, row: LinkRow): LinkRecord {
  const [child, name, node, onFailure, state, endedAt, result, failure, undo, fan, undone] = row
  return {
    parent,
    child,
    name,
    node: node ?? undefined,
    fan: fan ?? undefined,
    onFailure,
    end: state === null ? undefined : (stateName(state) as FinalState),
    endedAt: endedAt ?? undefined,
    result: result ?? undefined,
    failure: parse<Failure>(failure),
    undo: undo ?? undefined,
    undone: undone === 1,
  }
}
