/** The libraries whose transactions are taken, each over the server of the project. */
import { drizzle as drizzleNodePostgres } from 'drizzle-orm/node-postgres'
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js'
import knex from 'knex'
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource, type EntityManager } from 'typeorm'
import { serverUrl } from './postgres.js'

export interface Library {
  /** Commits when `work` resolves, rolls back when it rejects. */
  transaction<T>(work: (tx: unknown) => Promise<T>): Promise<T>
  /** The same inside of one, where the library has savepoints. */
  savepoint?(tx: unknown, work: (tx: unknown) => Promise<void>): Promise<unknown>
  /** What callers may take for a transaction. */
  readonly noTransaction: readonly unknown[]
  close(): Promise<unknown>
}

export const libraries: Readonly<Record<string, () => Promise<Library>>> = {
  'a pg Client': async () => {
    const client = new pg.Client(serverUrl())
    await client.connect()
    const transaction = <T>(work: (tx: unknown) => Promise<T>) => byHand(client, work)
    return { transaction, noTransaction: [client], close: () => client.end() }
  },

  'a PoolClient of pg': async () => {
    const pool = new pg.Pool({ connectionString: serverUrl(), max: 1 })
    return { ...pooled(pool, (client) => client), noTransaction: [pool] }
  },

  postgres: async () => {
    const sql = postgres(serverUrl(), { max: 1, transform: postgres.camel, onnotice: () => {} })
    return {
      transaction: (work) => sql.begin((tx) => work(tx)) as never,
      savepoint: (tx, work) => (tx as postgres.TransactionSql).savepoint(work),
      noTransaction: [sql],
      close: () => sql.end(),
    }
  },

  'Drizzle over pg': async () => {
    const pool = new pg.Pool({ connectionString: serverUrl(), max: 1 })
    const db = drizzleNodePostgres(pool)
    return {
      transaction: (work) => db.transaction(work),
      savepoint: (tx, work) => (tx as typeof db).transaction(work),
      noTransaction: [db],
      close: () => pool.end(),
    }
  },

  'Drizzle over postgres': async () => {
    const sql = postgres(serverUrl(), { max: 1 })
    const db = drizzlePostgresJs(sql)
    return { transaction: (work) => db.transaction(work), noTransaction: [db], close: () => sql.end() }
  },

  Kysely: async () => {
    const pool = new pg.Pool({ connectionString: serverUrl(), max: 1 })
    const db = new Kysely({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
    return {
      transaction: (work) => db.transaction().execute(work),
      noTransaction: [db],
      close: () => db.destroy(),
    }
  },

  Knex: async () => {
    const db = knex({ client: 'pg', connection: serverUrl(), pool: { min: 0, max: 1 } })
    return {
      transaction: (work) => db.transaction(work),
      savepoint: (tx, work) => (tx as typeof db).transaction(work),
      noTransaction: [db],
      close: () => db.destroy(),
    }
  },

  'a TypeORM EntityManager': async () => {
    const source = await dataSource()
    return {
      transaction: (work) => source.manager.transaction(work),
      savepoint: (tx, work) => (tx as EntityManager).transaction(work),
      noTransaction: [source, source.manager],
      close: () => source.destroy(),
    }
  },

  'a TypeORM QueryRunner': async () => {
    const source = await dataSource()
    const idle = source.createQueryRunner()
    return {
      async transaction(work) {
        const runner = source.createQueryRunner()
        await runner.startTransaction()
        try {
          const result = await work(runner)
          await runner.commitTransaction()
          return result
        } catch (error) {
          await runner.rollbackTransaction()
          throw error
        } finally {
          await runner.release()
        }
      },
      noTransaction: [idle],
      close: () => source.destroy(),
    }
  },

  // Its client has to be generated, and its packages are larger than all others here together.
  'a stand-in for Prisma': async () => {
    const pool = new pg.Pool({ connectionString: serverUrl(), max: 1 })
    return {
      ...pooled(pool, prismaLike),
      noTransaction: [{ ...prismaLike(pool), $connect: async () => {} }],
    }
  },
}

/** Values one by one, rows as they are, and 64-bit numbers as bigint. */
function prismaLike(client: pg.Pool | pg.PoolClient) {
  return {
    async $queryRawUnsafe(text: string, ...values: unknown[]) {
      const { rows, fields } = await client.query(text, values)
      const large = fields.filter(({ dataTypeID }) => dataTypeID === pg.types.builtins.INT8)
      for (const row of rows)
        for (const { name } of large) row[name] = row[name] === null ? null : BigInt(row[name])
      return rows
    },
  }
}

function pooled(
  pool: pg.Pool,
  tx: (client: pg.PoolClient) => unknown,
): Pick<Library, 'transaction' | 'close'> {
  return {
    async transaction(work) {
      const client = await pool.connect()
      try {
        return await byHand(client, () => work(tx(client)))
      } finally {
        client.release()
      }
    },
    close: () => pool.end(),
  }
}

async function byHand<T>(client: pg.ClientBase, work: (tx: unknown) => Promise<T>): Promise<T> {
  await client.query('BEGIN')
  try {
    const result = await work(client)
    await client.query('COMMIT')
    return result
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}

function dataSource(): Promise<DataSource> {
  return new DataSource({ type: 'postgres', url: serverUrl(), poolSize: 2 }).initialize()
}
