// The practical limit of SQLite through better-sqlite3: the bare batched insert → claim → delete loop.
//
// It does: give each job an id with a unique index, since users look jobs up by id; claim 500 with one
// UPDATE … RETURNING over a partial index of what is ready; settle a batch and claim the next in one
// transaction; hold the write lock from its start; delete by key, all keys of a batch in one statement,
// which is about a tenth faster than one statement for each. Settings of SQLite as Millrace's.
// It does not: run a handler, parse a payload, yield to the event loop, keep tokens or leases, know queues,
// priorities, attempts or workers, count anything, wake anybody. A crash would lose track of what it holds.
//
// Not a proof: a design that writes less for each job can pass it. Deleting a range of keys instead of a list
// would make it about a tenth faster still, but is right only where a batch has no gaps.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expectEqual, inputs, rate, tune, warmup } from '../workload.mjs'

const batch = 500

export async function processJobs({ jobs, folder, synchronous, enqueueInside = false }) {
  const loop = open(join(folder, 'ceiling.db'), synchronous)
  const early = warmup(jobs)
  loop.insert(inputs(early))
  expectEqual('jobs run', loop.process(), early)
  const all = inputs(jobs)
  if (!enqueueInside) loop.insert(all)
  const speed = await rate(jobs, () => {
    if (enqueueInside) loop.insert(all)
    expectEqual('jobs run', loop.process(), jobs)
  })
  loop.close()
  return { rate: speed }
}

function open(file, synchronous) {
  const db = new Database(file)
  tune(db, synchronous)
  db.exec(`
    CREATE TABLE job (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, payload TEXT NOT NULL, state INT NOT NULL);
    CREATE INDEX job_ready ON job (seq) WHERE state = 0;
  `)
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const add = db.prepare('INSERT INTO job (id, payload, state) VALUES (?, ?, 0)')
  const claim = db
    .prepare(
      `UPDATE job SET state = 1 WHERE seq IN (SELECT seq FROM job WHERE state = 0 ORDER BY seq LIMIT ?)
       RETURNING seq, id, payload`,
    )
    .raw()
  const remove = db.prepare('DELETE FROM job WHERE seq IN (SELECT value FROM json_each(?))')
  const left = db.prepare('SELECT count(*) FROM job').pluck()

  return { insert, process, close }

  function insert(all) {
    for (let n = 0; n < all.length; n += batch) {
      begin.run()
      for (const one of all.slice(n, n + batch)) add.run(nextId(), JSON.stringify(one))
      commit.run()
    }
  }

  function process() {
    let count = 0
    let held = []
    do {
      begin.run()
      if (held.length > 0) remove.run(JSON.stringify(held.map((row) => row[0])))
      held = claim.all(batch)
      commit.run()
      count += held.length
    } while (held.length > 0)
    return count
  }

  function close() {
    expectEqual('jobs left', left.get(), 0)
    db.close()
  }
}

let ids = 0
/** As long as a UUID and, like version 7, growing. */
function nextId() {
  const n = (ids++).toString(16).padStart(12, '0')
  return `019a8000-${n.slice(0, 4)}-7${n.slice(4, 7)}-8${n.slice(7, 10)}-${n.slice(10)}abcdefabcd`
}
