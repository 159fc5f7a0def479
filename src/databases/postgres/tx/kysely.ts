import { has, type Library, rowsOf } from './library.js'

interface Kysely {
  executeQuery(query: object): Promise<unknown>
  readonly isTransaction: boolean
}

export const kysely: Library<Kysely> = {
  accepts: 'Kysely (a Transaction)',
  isOurs: (tx): tx is Kysely & object => 'isTransaction' in tx && has(tx, 'executeQuery'),
  notOne: (trx) => (trx.isTransaction ? undefined : 'a Kysely instance that is no transaction'),
  query: (trx) => async (text, values) => rowsOf(await trx.executeQuery(compiled(text, values))),
}

/** What CompiledQuery.raw of Kysely makes. Plugins know a query by the identity of its `queryId`. */
function compiled(text: string, values: readonly string[]): object {
  const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
  return { sql: text, parameters: values, query, queryId: { queryId: 'millrace' } }
}
