import { MillraceError } from '../../core/errors.js'
import type { Queryable } from './transaction.js'

/** Refuses a server on which jobs would be lost or mangled. */
export async function checkServer(server: Queryable): Promise<void> {
  const { rows } = await server.query<Facts>({ text: facts })
  const { version, encoding, isolation } = rows[0] as Facts
  if (version < oldest)
    throw refused('server_version_num', version, `PostgreSQL ${oldest / 10_000} or newer`, oldest)
  if (encoding !== 'UTF8') throw refused('server_encoding', encoding, 'a database in UTF8')
  // Functions look again after they have waited for others, and must then see what these did.
  if (isolation !== 'read committed')
    throw refused('default_transaction_isolation', isolation, "'read committed' for the role of the URL")
}

interface Facts {
  readonly version: number
  readonly encoding: string
  readonly isolation: string
}

const oldest = 130_000

const facts = `SELECT current_setting('server_version_num')::int AS version,
  current_setting('server_encoding') AS encoding,
  current_setting('default_transaction_isolation') AS isolation`

function refused(field: string, value: unknown, expected: string, limit?: unknown): MillraceError {
  return new MillraceError(
    'STORE_REFUSED',
    `the server has ${field} = '${value}'; Millrace needs ${expected}`,
    {
      field,
      value,
      limit,
    },
  )
}
