// What a measurement asks the server about itself, over a connection of its own.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

/**
 * What `work` wrote for each of its jobs: bytes of the write-ahead log, and commits. `work` must open and close its
 * own connections, because a session tells the server's statistics of its commits at the latest when it ends.
 * The log is that of the whole server, so nothing else may run on it.
 */
export async function writtenBy(url, jobs, work) {
  const client = await connect(url)
  const before = await counters(client)
  await work()
  const after = await counters(client)
  await client.end()
  return {
    wal: Number(after.wal - before.wal) / jobs,
    commits: Number(after.commits - before.commits) / jobs,
  }
}

async function counters(client) {
  await alone(client)
  const { rows } = await client.query(
    `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS wal, xact_commit AS commits
     FROM pg_stat_database WHERE datname = current_database()`,
  )
  return { wal: BigInt(rows[0].wal), commits: BigInt(rows[0].commits) }
}

async function alone(client) {
  for (let n = 0; n < 500; n++) {
    const { rows } = await client.query(
      `SELECT count(*)::int AS others FROM pg_stat_activity
       WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
    )
    if (rows[0].others === 0) return
    await sleep(20)
  }
  throw new Error('connections were left open')
}

/** A transaction that does nothing and sees the database as it is now, so that no row that dies is removed. */
export async function holdTransaction(url) {
  const client = await connect(url)
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT pg_current_xact_id()')
  return async () => {
    const { rows } = await client.query(
      'SELECT backend_xmin FROM pg_stat_activity WHERE pid = pg_backend_pid()',
    )
    if (rows[0].backend_xmin === null) throw new Error('the transaction held nothing')
    await client.query('ROLLBACK')
    await client.end()
  }
}

async function connect(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return client
}
