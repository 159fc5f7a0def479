import { MillraceError } from '../../../core/errors.js'
import { drizzle } from './drizzle.js'
import { knex } from './knex.js'
import { kysely } from './kysely.js'
import type { Library, Query } from './library.js'
import { pg } from './pg.js'
import { postgresJs } from './postgres-js.js'
import { prisma } from './prisma.js'
import { typeorm } from './typeorm.js'

/** The most particular shapes first: `query` alone says little. */
const libraries = [postgresJs, knex, kysely, drizzle, prisma, typeorm, pg] as readonly Library<unknown>[]

/** How to speak inside the caller's transaction, whatever library it is of. */
export function queryOf(tx: unknown): Query {
  if ((typeof tx !== 'object' && typeof tx !== 'function') || tx === null) throw refused(`${tx}`)
  const library = libraries.find(({ isOurs }) => isOurs(tx))
  if (library === undefined) throw refused('of no library that is known here')
  const other = library.notOne(tx)
  if (other !== undefined) throw refused(other)
  return library.query(tx)
}

function refused(what: string): MillraceError {
  const accepted = libraries.map(({ accepts }) => accepts).join('; ')
  return new MillraceError(
    'STORE_REFUSED',
    `tx is ${what}; expected an open transaction of one of: ${accepted}`,
    {
      field: 'tx',
    },
  )
}
