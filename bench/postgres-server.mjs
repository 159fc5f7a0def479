// PostgreSQL for one run of the benchmark: startPostgres() → { url, stop }. MILLRACE_POSTGRES_URL names a server that
// is there already; otherwise it is one of the tests'.
import { builtServer, durableFolder } from './built.mjs'

/** An ordinary durable server. */
const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  max_connections: 200,
  // As PostgreSQL comes: the tests' servers write less into the log, and keep shared memory in files.
  wal_level: 'replica',
  max_wal_senders: 10,
  dynamic_shared_memory_type: 'posix',
}

export async function startPostgres(more) {
  const server = await builtServer('postgres')
  return server.startPostgres({ durable: true, settings: { ...settings, ...more }, above: durableFolder() })
}
