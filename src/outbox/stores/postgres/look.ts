import type { Connection } from '../../../databases/postgres/connection.js'
import { type AsideQuery, type AsideRow, mostCounted, type OutboxFigures, slots } from '../../store.js'
import { kindOf } from './slots.js'
import { look } from './sql.generated.js'

type InSchema = (sql: string) => string

export async function figures(connection: Connection, inSchema: InSchema): Promise<OutboxFigures> {
  const { rows } = await connection.query({ text: inSchema(look.figures) }, [slots, mostCounted])
  const { jobs, messages, oldestJob, oldestMessage, heldJobs, heldMessages, aside } = rows[0]
  return {
    waiting: { job: jobs, message: messages },
    oldest: { job: oldestJob, message: oldestMessage },
    held: { job: heldJobs, message: heldMessages },
    aside,
  }
}

export async function listAside(
  connection: Connection,
  inSchema: InSchema,
  { after, limit }: AsideQuery,
): Promise<readonly AsideRow[]> {
  const { rows } = await connection.query({ text: inSchema(look.aside) }, [after, limit])
  return rows.map((row) => ({
    ...row,
    kind: kindOf(row.slot),
    slot: row.slot % slots,
    key: row.key ?? undefined,
    topic: row.topic ?? undefined,
    headers: row.headers ?? undefined,
  }))
}
