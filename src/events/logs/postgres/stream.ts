import type { Queryable } from '../../../databases/postgres/transaction.js'
import type { StreamPage, StreamQuery } from '../../log.js'
import { type EventRow, toEvent } from '../rows.js'
import type { InSchema } from './in-schema.js'
import { stream as sql } from './sql.generated.js'

type StreamRow = { readonly newest: number } & (EventRow | { readonly position: null })

export function makeStream(
  server: Queryable,
  inSchema: InSchema,
): (query: StreamQuery) => Promise<StreamPage> {
  const forwards = { name: 'millrace_stream', text: inSchema(sql.forwards) }
  const backwards = { name: 'millrace_stream_back', text: inSchema(sql.backwards) }

  return async ({ stream, after, limit, ...query }) => {
    const values = [stream, Math.min(after, Number.MAX_SAFE_INTEGER), limit]
    const { rows } = await server.query<StreamRow>(query.backwards ? backwards : forwards, values)
    return {
      events: rows.flatMap((row) => (row.position === null ? [] : [toEvent(row)])),
      version: rows[0]?.newest ?? 0,
    }
  }
}
