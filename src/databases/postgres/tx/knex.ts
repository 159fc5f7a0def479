import { has, type Library, rowsOf } from './library.js'

interface Knex {
  raw(text: string, values: readonly string[]): Promise<unknown>
  readonly isTransaction?: boolean
}

export const knex: Library<Knex> = {
  accepts: 'Knex (a Transaction)',
  isOurs: (tx): tx is Knex & object => typeof tx === 'function' && has(tx, 'raw', 'transaction'),
  notOne: (trx) => (trx.isTransaction === true ? undefined : 'a Knex instance that is no transaction'),
  // Its placeholders have no numbers; ours come in order.
  query: (trx) => async (text, values) => rowsOf(await trx.raw(text.replace(/\$\d+/g, '?'), values)),
}
