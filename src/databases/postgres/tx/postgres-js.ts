import { has, type Library, rowsOf } from './library.js'

interface Sql {
  unsafe(text: string, values: readonly string[]): Promise<unknown>
}

export const postgresJs: Library<Sql> = {
  accepts: 'postgres (the sql of sql.begin or sql.reserve)',
  isOurs: (tx): tx is Sql & object => typeof tx === 'function' && has(tx, 'unsafe'),
  notOne: (sql) => (has(sql, 'begin') ? 'the sql of postgres outside of sql.begin' : undefined),
  query: (sql) => async (text, values) => rowsOf(await sql.unsafe(text, values)),
}
