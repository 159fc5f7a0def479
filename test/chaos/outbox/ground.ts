/** What all runs around an outbox share: the server of the caller's data, and the server that the jobs go to. */
import { join } from 'node:path'
import { startPostgres } from '../../servers/postgres.js'
import { startOwnRedis } from '../../servers/redis.js'
import type { ChaosServer } from '../place.js'
import { groundOf } from '../redis-engine.js'
import type { OutboxPlace } from './child.js'

export type OutboxEngine = 'outbox-sqlite' | 'outbox-postgres'

export interface OutboxGround {
  /** A fresh one, where there is nothing yet. */
  place(folder: string): OutboxPlace
  /** Ours to kill: of the caller's data, and of the Millrace. */
  readonly server?: ChaosServer
  readonly target?: ChaosServer
  close(): Promise<void>
}

export function prepareOutbox(
  engine: OutboxEngine,
  settings: Readonly<Record<string, string>>,
): Promise<OutboxGround> {
  return engine === 'outbox-sqlite' ? onFiles() : onServers(settings)
}

async function onFiles(): Promise<OutboxGround> {
  return {
    place: (folder) => ({
      business: { engine: 'sqlite', file: join(folder, 'app.db') },
      target: { engine: 'sqlite', file: join(folder, 'jobs.db') },
      delivered: join(folder, 'delivered.jsonl'),
    }),
    close: async () => {},
  }
}

/** Relays may follow its log. One that the network has swallowed is given up sooner than a server does by itself. */
const replicating = {
  wal_level: 'logical',
  max_wal_senders: 8,
  max_replication_slots: 8,
  wal_sender_timeout: '10s',
}

async function onServers(settings: Readonly<Record<string, string>>): Promise<OutboxGround> {
  const server = await startPostgres({
    durable: true,
    settings: { synchronous_commit: 'on', ...replicating, ...settings },
  })
  if (server.dataDir === undefined)
    throw new Error('chaos kills its server; unset MILLRACE_POSTGRES_URL, so that it starts one of its own')
  const target = await startOwnRedis({ appendfsync: 'always' })
  const targets = groundOf(target.url, 'redis')
  let schemas = 0
  return {
    place: (folder) => ({
      business: { engine: 'postgres', url: server.url, schema: `chaos_${++schemas}` },
      target: targets.place(folder),
      delivered: join(folder, 'delivered.jsonl'),
    }),
    server,
    target,
    async close() {
      await Promise.all([server.stop(), target.stop()])
    },
  }
}
