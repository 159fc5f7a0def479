// The practical limit of PostgreSQL through `pg`: the bare batched insert → claim → delete loop.
//
// It does: give each job an id with a unique index, since users look jobs up by id; delete the batch that is done
// and claim the next in one prepared statement, which is one round trip and one commit; claim through a partial
// index of what is ready, locked rows skipped.
// It does not: run a handler, parse a payload, keep tokens or leases, know queues, priorities, attempts or
// workers, count anything, wake anybody, use a second connection. A crash would lose track of what it holds.
//
// Not a proof: a design that writes less for each job can pass it.
import pg from 'pg'
import { batch } from '../postgres-tuning.mjs'
import { expectEqual, inputs, rate, warmup } from '../workload.mjs'

export async function processJobs({ url, jobs, enqueueInside = false }) {
  const loop = await open(url)
  const early = warmup(jobs)
  await loop.insert(inputs(early))
  expectEqual('jobs run', await loop.process(), early)
  const all = inputs(jobs)
  if (!enqueueInside) await loop.insert(all)
  const speed = await rate(jobs, async () => {
    if (enqueueInside) await loop.insert(all)
    expectEqual('jobs run', await loop.process(), jobs)
  })
  await loop.close()
  return { rate: speed }
}

async function open(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`
    CREATE TABLE job (id uuid PRIMARY KEY, payload text NOT NULL, state smallint NOT NULL DEFAULT 0);
    CREATE INDEX job_ready ON job (id) WHERE state = 0;
  `)
  return { insert, process, close }

  async function insert(all) {
    for (let n = 0; n < all.length; n += batch) {
      const some = all.slice(n, n + batch)
      await client.query({
        name: 'insert',
        text: 'INSERT INTO job (id, payload) SELECT * FROM unnest($1::uuid[], $2::text[])',
        values: [some.map(nextId), some.map((one) => JSON.stringify(one))],
      })
    }
  }

  async function process() {
    let count = 0
    let held = []
    do {
      const { rows } = await client.query({
        name: 'exchange',
        text: `
          WITH done AS (DELETE FROM job WHERE id = ANY ($1::uuid[])),
          next AS MATERIALIZED (
            SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
          )
          UPDATE job SET state = 1 WHERE id = ANY (ARRAY(SELECT id FROM next)) RETURNING id, payload`,
        values: [held, batch],
        rowMode: 'array',
      })
      held = rows.map((row) => row[0])
      count += held.length
    } while (held.length > 0)
    return count
  }

  async function close() {
    const { rows } = await client.query('SELECT count(*)::int AS count FROM job')
    expectEqual('jobs left', rows[0].count, 0)
    await client.end()
  }
}

let ids = 0
/** Growing, like version 7. */
function nextId() {
  const n = (ids++).toString(16).padStart(12, '0')
  return `019a8000-${n.slice(0, 4)}-7${n.slice(4, 7)}-8${n.slice(7, 10)}-${n.slice(10)}abcdefabcd`
}
