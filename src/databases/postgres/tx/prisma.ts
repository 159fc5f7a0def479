import { has, type Library, rowsOf } from './library.js'

interface Prisma {
  $queryRawUnsafe(text: string, ...values: readonly string[]): PromiseLike<unknown>
}

export const prisma: Library<Prisma> = {
  accepts: 'Prisma (the client of an interactive $transaction)',
  isOurs: (tx): tx is Prisma & object => has(tx, '$queryRawUnsafe'),
  notOne: (client) => (has(client, '$connect') ? 'a Prisma client outside of $transaction' : undefined),
  query: (client) => async (text, values) => rowsOf(await client.$queryRawUnsafe(text, ...values)),
}
