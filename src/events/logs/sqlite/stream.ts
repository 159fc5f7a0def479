import type { Database } from '../../../databases/sqlite/connection.js'
import type { StreamPage, StreamQuery } from '../../log.js'
import { type EventRow, toEvent } from '../rows.js'
import { atOneLook, prepare } from './prepare.js'
import { stream as sql } from './sql.generated.js'

export function makeStream(db: Database): (query: StreamQuery) => StreamPage {
  const versionOf = prepare<[string], number>(db, sql.version).pluck()
  const forwards = prepare<[string, number, number], EventRow>(db, sql.forwards)
  const backwards = prepare<[string, number, number], EventRow>(db, sql.backwards)

  return atOneLook(db, ({ stream, after, limit, ...query }: StreamQuery): StreamPage => {
    const rows = (query.backwards ? backwards : forwards).all(stream, after, limit)
    return { events: rows.map(toEvent), version: versionOf.get(stream) ?? 0 }
  })
}
