import type { Connection } from '../../../databases/postgres/connection.js'
import type { SnapshotRecord } from '../../log.js'
import type { InSchema } from './in-schema.js'
import { snapshot as sql } from './sql.generated.js'

export function makeSnapshots(connection: Connection, inSchema: InSchema) {
  const newest = { name: 'millrace_snapshot', text: inSchema(sql.newest) }
  const hold = { text: inSchema(sql.hold) }
  const keepOne = { text: inSchema(sql.keep) }

  return { get, keep }

  async function get(stream: string, name: string): Promise<SnapshotRecord | undefined> {
    const { rows } = await connection.query<SnapshotRecord>(newest, [stream, name])
    return rows[0]
  }

  async function keep({ stream, name, schema, version, state }: SnapshotRecord): Promise<void> {
    await connection.transaction(async (transaction) => {
      await transaction.query(hold, [stream])
      // Whatever it waited for, this sees.
      await transaction.query(keepOne, [stream, name, schema, version, state])
    })
  }
}
