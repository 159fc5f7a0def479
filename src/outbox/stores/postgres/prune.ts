import type { Connection } from '../../../databases/postgres/connection.js'
import type { PruneRequest } from '../../store.js'
import { prune as statements } from './sql.generated.js'

type InSchema = (sql: string) => string

export async function prune(
  connection: Connection,
  inSchema: InSchema,
  { history, aside, received, limit }: PruneRequest,
): Promise<boolean> {
  const remove = async (text: string, values: readonly unknown[]) =>
    (await connection.query({ text: inSchema(text) }, values)).rowCount === limit
  const more = [
    history !== undefined && (await remove(statements.sent, [history, limit])),
    aside !== undefined && (await remove(statements.aside, [aside, limit])),
    received !== undefined && (await remove(statements.received, [received.keep, limit, received.consumer])),
  ]
  return more.includes(true)
}
