import type { Migration, SchemaPlan } from '../../databases/postgres/migrate.js'
import { functionSet, functions } from './functions.js'
import { inSchema } from './in-schema.js'
import { migrations as all } from './sql.generated.js'
import { deskFunctions, listFunctions } from './statements.js'

/** The tables of jobs, and the functions of this version beside those of others. */
export function planOf(schema: string, migrations: readonly Migration[] = all): SchemaPlan {
  return {
    schema,
    own: { table: 'job', of: 'jobs' },
    migrations,
    inSchema: (sql) => inSchema(sql, schema),
    functions: {
      mark: `exchange_${functionSet}`,
      // Only `enqueue`, which others call, has the same name in every version: the one that came last stands.
      texts: () => [
        ...functions.map((text) => inSchema(text, schema)),
        ...deskFunctions(schema),
        ...listFunctions(schema),
      ],
    },
  }
}
