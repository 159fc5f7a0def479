import { bind } from '../literal.js'
import { has, type Library, rowsOf } from './library.js'

interface Drizzle {
  execute(text: string): PromiseLike<unknown>
}

export const drizzle: Library<Drizzle> = {
  accepts: 'Drizzle (the tx of db.transaction)',
  isOurs: (tx): tx is Drizzle & object => 'dialect' in tx && 'session' in tx && has(tx, 'execute'),
  notOne: (tx) =>
    has(tx, 'rollback', 'setTransaction') ? undefined : 'a Drizzle database outside of db.transaction',
  // Values with placeholders are made by its `sql`, which would have to be imported.
  query: (tx) => async (text, values) => rowsOf(await tx.execute(bind(text, values))),
}
