/** A table of the caller's own beside the jobs: what handlers write in their transactions. */
import Database from 'better-sqlite3'
import pg from 'pg'
import type { Place } from '../place.js'

interface Entries {
  /** In the transaction of a handler. */
  add(tx: unknown, what: string): Promise<void>
  all(): Promise<string[]>
}

/** Makes the table, where the jobs are already. */
export async function makeEntries(place: Place): Promise<void> {
  await asked(place, place.engine === 'postgres' ? `CREATE TABLE ${tableOf(place)} (what text)` : sqliteTable)
}

const sqliteTable = 'CREATE TABLE entry (what TEXT)'

export function entriesOf(place: Place): Entries {
  const table = tableOf(place)
  return {
    async add(tx, what) {
      if (place.engine === 'postgres')
        await (tx as pg.ClientBase).query(`INSERT INTO ${table} (what) VALUES ($1)`, [what])
      else (tx as Database.Database).prepare(`INSERT INTO ${table} (what) VALUES (?)`).run(what)
    },
    all: async () => (await asked(place, `SELECT what FROM ${table} ORDER BY what`)).map(({ what }) => what),
  }
}

function tableOf(place: Place): string {
  return place.engine === 'postgres' ? `"${place.schema}".entry` : 'entry'
}

async function asked(place: Place, text: string): Promise<{ what: string }[]> {
  if (place.engine === 'memory' || place.engine === 'redis') throw new Error(`${place.engine} has no tables`)
  if (place.engine === 'sqlite') {
    const db = new Database(place.file)
    try {
      const statement = db.prepare<[], { what: string }>(text)
      if (statement.reader) return statement.all()
      statement.run()
      return []
    } finally {
      db.close()
    }
  }
  const client = new pg.Client({ connectionString: place.url })
  await client.connect()
  try {
    return (await client.query<{ what: string }>(text)).rows
  } finally {
    await client.end()
  }
}
