import type { Queryable } from '../../../databases/postgres/transaction.js'
import type { SnapshotRecord } from '../../log.js'
import type { InSchema } from './in-schema.js'
import { snapshot as sql } from './sql.generated.js'

export function makeSnapshots(server: Queryable, inSchema: InSchema) {
  const newest = { name: 'millrace_snapshot', text: inSchema(sql.newest) }
  const keepOne = { name: 'millrace_keep', text: inSchema(sql.keep) }

  return { get, keep }

  async function get(stream: string, name: string): Promise<SnapshotRecord | undefined> {
    const { rows } = await server.query<SnapshotRecord>(newest, [stream, name])
    return rows[0]
  }

  async function keep({ stream, name, schema, version, state }: SnapshotRecord): Promise<void> {
    await server.query(keepOne, [stream, name, schema, version, state])
  }
}
