import type { Database } from '../../../databases/sqlite/connection.js'
import type { AllPage, AllQuery } from '../../log.js'
import { type EventRow, toEvent } from '../rows.js'
import { atOneLook, prepare } from './prepare.js'
import { all as sql } from './sql.generated.js'

interface PageValues {
  readonly after: number
  readonly through: number
  /** JSON. */
  readonly types: string | null
  readonly part: number
  readonly of: number
}

/** The file has one writer at a time, so positions appear in their order: nothing that is missing can come later. */
export function makeAll(db: Database) {
  const last = prepare<[number, number], number>(db, sql.last).pluck()
  const newest = prepare<[], number>(db, sql.end).pluck()
  const page = prepare<PageValues, EventRow>(db, sql.page)

  return { all: atOneLook(db, all), end }

  function end(): number {
    return newest.get() ?? 0
  }

  function all({ after, limit, types, share }: AllQuery): AllPage {
    const newestNow = end()
    const through = last.get(after, limit - 1) ?? Math.max(after, newestNow)
    const { part, of } = share ?? { part: 0, of: 1 }
    const rows = page.all({
      after,
      through,
      types: types === undefined ? null : JSON.stringify(types),
      part,
      of,
    })
    return { events: rows.map(toEvent), through, more: through < newestNow, pending: false }
  }
}
