// INSERT and nothing else: a table with a growing key, the stream, a type and the data. No versions, no unique index beside
// the key, nobody is told, a retry would add it twice.
import { join } from 'node:path'
import { bursts, input, rate, tune, warmup } from '../workload.mjs'

/** A commit for each. */
export async function appendEach({ jobs, ...place }) {
  const db = await open[place.engine](place)
  for (let n = 0; n < warmup(jobs); n++) await db.insert(n, input(n))
  const speed = await rate(jobs, async () => {
    for (let n = 0; n < jobs; n++) await db.insert(n, input(n))
  })
  await db.close()
  return { rate: speed }
}

/** A statement and a commit for each burst. */
export async function appendBursts({ jobs, ...place }) {
  const db = await open[place.engine](place)
  for (const all of bursts(warmup(jobs))) await db.insertAll(all)
  const speed = await rate(jobs, async () => {
    for (const all of bursts(jobs)) await db.insertAll(all)
  })
  await db.close()
  return { rate: speed }
}

/** A statement for each, a commit for each burst, as a projection's batch has it. */
export async function project({ jobs, ...place }) {
  const db = await open[place.engine](place)
  const speed = await rate(jobs, async () => {
    for (const all of bursts(jobs))
      await db.transact(async () => {
        for (const [n, one] of all.entries()) await db.insert(n, one)
      })
  })
  await db.close()
  return { rate: speed }
}

const open = {
  async postgres({ url }) {
    const { default: pg } = await import('pg')
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query(
      'CREATE TABLE event (position bigserial PRIMARY KEY, stream text NOT NULL, type text NOT NULL, data text NOT NULL)',
    )
    return {
      close: () => client.end(),
      insert: (n, one) =>
        client.query({
          name: 'insert',
          text: "INSERT INTO event (stream, type, data) VALUES ($1, 'placed', $2)",
          values: [`order-${n}`, JSON.stringify(one)],
        }),
      insertAll: (all) =>
        client.query({
          name: 'insertAll',
          text: "INSERT INTO event (stream, type, data) SELECT stream, 'placed', data FROM unnest($1::text[], $2::text[]) g (stream, data)",
          values: [all.map((_, n) => `order-${n}`), all.map((one) => JSON.stringify(one))],
        }),
      async transact(work) {
        await client.query('BEGIN')
        await work()
        await client.query('COMMIT')
      },
    }
  },

  async sqlite({ folder }) {
    const { default: Database } = await import('better-sqlite3')
    const db = new Database(join(folder, 'peer.db'))
    tune(db, 'full')
    db.exec(
      'CREATE TABLE event (position INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL)',
    )
    const statement = db.prepare("INSERT INTO event (stream, type, data) VALUES (?, 'placed', ?)")
    const insert = async (n, one) => void statement.run(`order-${n}`, JSON.stringify(one))
    const all = db.transaction((many) => {
      for (const [n, one] of many.entries()) statement.run(`order-${n}`, JSON.stringify(one))
    })
    return {
      close: async () => db.close(),
      insert,
      insertAll: async (many) => all(many),
      async transact(work) {
        db.exec('BEGIN IMMEDIATE')
        await work()
        db.exec('COMMIT')
      },
    }
  },
}
