import { lockKey, quote } from '../../databases/postgres/schema.js'
import { functionSet, settings } from './functions.js'

/** A statement or a migration for this schema. */
export function inSchema(sql: string, schema: string): string {
  return Object.entries(partsOf(schema)).reduce(
    (text, [part, value]) => text.replaceAll(`{${part}}`, value),
    sql,
  )
}

/**
 * What stands in statements in braces: the schema's quoted name, the numbers of locks, which functions are called, and what
 * these run under.
 */
export function partsOf(schema: string) {
  return {
    schema: quote(schema),
    barrier: lockKey(schema, 'barrier'),
    desk: lockKey(schema, 'desk'),
    set: functionSet,
    ...settings,
  }
}
