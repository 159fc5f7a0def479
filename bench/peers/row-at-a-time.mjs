// The relay that articles on the outbox show: select what is pending, publish each row and mark it sent, one after the
// other. It has an index of what is pending, which they leave out.
import { join } from 'node:path'
import { expectEqual, inputs, rate, tune, warmup } from '../workload.mjs'

const batch = 100

export async function relay({ engine, url, folder, jobs }) {
  const db = await open[engine]({ url, folder })
  await db.write(inputs(warmup(jobs)))
  await handOn(warmup(jobs))
  await db.write(inputs(jobs))
  const speed = await rate(jobs, () => handOn(jobs))
  await db.close()
  return { rate: speed }

  async function handOn(count) {
    let sent = 0
    for (;;) {
      const rows = await db.pending()
      if (rows.length === 0) break
      for (const row of rows) {
        await publish(row)
        await db.markSent(row.id)
        sent++
      }
    }
    expectEqual('rows sent', sent, count)
  }
}

async function publish() {}

const open = {
  async postgres({ url }) {
    const { default: pg } = await import('pg')
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query(`
      CREATE TABLE outbox (id bigserial PRIMARY KEY, topic text NOT NULL, payload text NOT NULL, status text NOT NULL DEFAULT 'PENDING');
      CREATE INDEX outbox_pending ON outbox (id) WHERE status = 'PENDING';
    `)
    return {
      close: () => client.end(),
      write: (all) =>
        client.query("INSERT INTO outbox (topic, payload) SELECT 'orders', unnest($1::text[])", [
          all.map((one) => JSON.stringify(one)),
        ]),
      pending: async () => {
        const text = `SELECT id, topic, payload FROM outbox WHERE status = 'PENDING' ORDER BY id LIMIT ${batch}`
        return (await client.query({ name: 'pending', text })).rows
      },
      markSent: (id) =>
        client.query({ name: 'sent', text: "UPDATE outbox SET status = 'SENT' WHERE id = $1", values: [id] }),
    }
  },

  async sqlite({ folder }) {
    const { default: Database } = await import('better-sqlite3')
    const db = new Database(join(folder, 'peer.db'))
    tune(db, 'full')
    db.exec(`
      CREATE TABLE outbox (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, payload TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'PENDING');
      CREATE INDEX outbox_pending ON outbox (id) WHERE status = 'PENDING';
    `)
    const insert = db.prepare("INSERT INTO outbox (topic, payload) VALUES ('orders', ?)")
    const pending = db.prepare(
      `SELECT id, topic, payload FROM outbox WHERE status = 'PENDING' ORDER BY id LIMIT ${batch}`,
    )
    const markSent = db.prepare("UPDATE outbox SET status = 'SENT' WHERE id = ?")
    return {
      close: async () => db.close(),
      write: async (all) => {
        db.transaction(() => {
          for (const one of all) insert.run(JSON.stringify(one))
        })()
      },
      pending: async () => pending.all(),
      markSent: async (id) => void markSent.run(id),
    }
  },
}
