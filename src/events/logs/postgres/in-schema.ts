import { createHash } from 'node:crypto'
import type { SchemaPlan } from '../../../databases/postgres/migrate.js'
import { lockKey, quote } from '../../../databases/postgres/schema.js'
import { append, clock, migrations, writers } from './sql.generated.js'

const functions = [clock, append, writers]

/** Plans must not depend on what the server knows of the tables, which may be nothing, or old. */
const steady = [
  'search_path = pg_catalog, pg_temp',
  'plan_cache_mode = force_generic_plan',
  'enable_seqscan = off',
  'enable_bitmapscan = off',
  'enable_hashjoin = off',
  'enable_mergejoin = off',
  'max_parallel_workers_per_gather = 0',
  'jit = off',
]
  .map((setting) => `SET ${setting}`)
  .join('\n')

/** In the names of all functions of this version: those of others stand beside them while their processes live. */
const functionSet = createHash('sha256')
  .update(JSON.stringify([functions, steady]))
  .digest('hex')
  .slice(0, 8)

/** Puts what is in braces in its place. */
export type InSchema = (sql: string) => string

export function inSchemaOf(schema: string): InSchema {
  const parts: Readonly<Record<string, string>> = {
    schema: quote(schema),
    set: functionSet,
    writers: lockKey(schema, 'writers'),
    steady,
  }
  return (sql) => sql.replace(/\{(\w+)\}/g, (text, part: string) => parts[part] ?? text)
}

export function planOf(schema: string): SchemaPlan {
  const inSchema = inSchemaOf(schema)
  return {
    schema,
    own: { table: 'checkpoint', of: 'an event store' },
    migrations,
    inSchema,
    functions: { mark: `append_${functionSet}`, texts: () => functions.map(inSchema) },
  }
}
