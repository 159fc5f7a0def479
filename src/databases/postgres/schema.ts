/** Names that are made of the schema's: so that two systems in one database never meet. */
import { createHash } from 'node:crypto'
import { invalid } from '../../core/options.js'

const longest = 48

export function checkSchema(name: string): string {
  if (typeof name !== 'string' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || name.length > longest)
    throw invalid(
      'schema',
      name,
      `up to ${longest} letters, digits or _, not beginning with a digit`,
      longest,
    )
  if (/^(pg_|information_schema$)/i.test(name))
    throw invalid('schema', name, 'a name that PostgreSQL does not keep for itself')
  return name
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** At most 63 bytes, as for every name. */
export function channelOf(schema: string): string {
  return `millrace.${schema}`
}

/** The number of an advisory lock. Advisory locks are shared by all of a database, so it must not be a small one. */
export function lockKey(schema: string, purpose: string): string {
  return createHash('sha256').update(`millrace/${purpose}/${schema}`).digest().readBigInt64BE().toString()
}
