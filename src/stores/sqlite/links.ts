import { bounds } from '../../core/bounds.js'
import type { FailurePolicy, LinkRecord } from '../../core/family.js'
import type { Failure, FinalState } from '../../core/job.js'
import type { LinkPage, LinkQuery } from '../../core/store.js'
import { parse } from './parse.js'
import { family as sql } from './sql.generated.js'
import { stateName, type Tables } from './tables.js'

interface LinkRow {
  readonly parent_id: string
  readonly child: string
  readonly name: string
  readonly node: string | null
  readonly on_failure: FailurePolicy
  readonly undo: string | null
  readonly state: number | null
  readonly ended_at: number | null
  readonly result: string | null
  readonly failure: string | null
}

/** Looks at a bounded number of links per call; a filter that matches few gets a cursor to go on with. */
export function makeLinks({ db }: Tables): (query: LinkQuery) => LinkPage {
  const select = db.prepare<[string, string, number], LinkRow>(sql.links)
  return (query) => {
    const found: LinkRecord[] = []
    let [at, after] = query.cursor === undefined ? [0, ''] : (JSON.parse(query.cursor) as [number, string])
    let looked = 0
    for (; at < query.parents.length; at++, after = '') {
      for (;;) {
        const size = Math.min(query.limit, bounds.page)
        const rows = select.all(query.parents[at] ?? '', after, size)
        for (const row of rows) {
          if (found.length === query.limit || looked === bounds.scan)
            return { links: found, cursor: JSON.stringify([at, after]) }
          looked++
          after = row.child
          const link = recordOf(row)
          if (matches(link, query)) found.push(link)
        }
        if (rows.length < size) break
      }
    }
    return { links: found, cursor: undefined }
  }
}

function matches({ name, end }: LinkRecord, query: LinkQuery): boolean {
  if (query.name !== undefined && name !== query.name) return false
  return query.failed !== true || (end !== undefined && end !== 'completed')
}

function recordOf(row: LinkRow): LinkRecord {
  return {
    parent: row.parent_id,
    child: row.child,
    name: row.name,
    node: row.node ?? undefined,
    onFailure: row.on_failure,
    end: row.state === null ? undefined : (stateName(row.state) as FinalState),
    endedAt: row.ended_at ?? undefined,
    result: row.result ?? undefined,
    failure: parse<Failure>(row.failure),
    undo: row.undo ?? undefined,
  }
}
