import { has, type Library, rowsOf } from './library.js'

interface Runner {
  query(text: string, values: readonly string[]): Promise<unknown>
  readonly isTransactionActive?: boolean
}

interface Manager extends Runner {
  readonly queryRunner?: Runner
}

export const typeorm: Library<Manager> = {
  accepts: 'TypeORM (an EntityManager or QueryRunner)',
  isOurs: (tx): tx is Manager & object =>
    has(tx, 'query') && ('isTransactionActive' in tx || has(tx, 'getRepository')),
  notOne: (tx) => (runner(tx).isTransactionActive ? undefined : 'of TypeORM, but has no transaction'),
  query: (tx) => async (text, values) => rowsOf(await runner(tx).query(text, values)),
}

/** A DataSource and its manager have none: each of their statements may go over another connection. */
function runner(tx: Manager): Runner {
  return tx.queryRunner ?? tx
}
