// Databases for the measurements on a PostgreSQL server, as folders are for those on files: each measurement
// has one of its own, made for it and dropped after it, so that no dead rows of one meet the next.
import pg from 'pg'

/** What decides how fast and how durable a server is; printed with the results. */
const told = [
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'wal_level',
  'shared_buffers',
  'max_wal_size',
  'checkpoint_timeout',
  'autovacuum_naptime',
  'max_connections',
]

export async function openDatabases(server) {
  const admin = new pg.Client({ connectionString: server.url })
  // A server that goes away is noticed by the next query.
  admin.on('error', () => {})
  await admin.connect()
  const kept = new Set()
  let count = 0
  return { use, dropKept, describe, close }

  /**
   * Runs `work` with the URL of a new database: an empty one, or a copy of the one kept as `from`. It is
   * dropped afterwards, or kept as `keep`.
   */
  async function use({ from, keep }, work) {
    const name = keep === undefined ? nameOf(`run_${++count}`) : nameOf(keep)
    // As files, because otherwise the whole copy would go through the log.
    const template = from === undefined ? '' : ` TEMPLATE ${nameOf(from)} STRATEGY file_copy`
    await admin.query(`CREATE DATABASE ${name}${template}`)
    try {
      if (keep !== undefined) kept.add(name)
      await settle()
      const answer = await work(urlOf(name))
      if (keep !== undefined) await vacuum(name)
      return answer
    } finally {
      if (keep === undefined) await drop(name)
    }
  }

  async function dropKept() {
    for (const name of kept) await drop(name)
    kept.clear()
  }

  async function drop(name) {
    await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }

  /** Everybody starts behind a checkpoint: none of them pays for the writes of the one before. */
  function settle() {
    return admin.query('CHECKPOINT')
  }

  async function vacuum(name) {
    const client = new pg.Client({ connectionString: urlOf(name) })
    await client.connect()
    await client.query('VACUUM ANALYZE')
    await client.end()
  }

  function urlOf(name) {
    const url = new URL(server.url)
    url.pathname = `/${name}`
    return url.href
  }

  /** Lines about the server. */
  async function describe() {
    const { rows } = await admin.query(
      'SELECT name, current_setting(name) AS value FROM unnest($1::text[]) name',
      [['server_version', ...told]],
    )
    const [version, ...others] = rows
    const where = process.env.MILLRACE_POSTGRES_URL ? 'MILLRACE_POSTGRES_URL' : 'started for this run'
    return [
      `postgres  ${version.value}, ${where}: ${others.map((row) => `${row.name}=${row.value}`).join(', ')}`,
      'postgres  a new database for each measurement, dropped after it; a checkpoint before each',
    ]
  }

  async function close() {
    await dropKept()
    await admin.end()
  }
}

/** With the process, because others may use the same server. */
function nameOf(what) {
  return `millrace_bench_${process.pid}_${what.replaceAll(/[^a-z0-9_]/g, '_')}`
}
