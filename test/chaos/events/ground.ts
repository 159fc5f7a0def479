/** What all runs on an event store share: the server of the log, where it has one. */
import { join } from 'node:path'
import { startPostgres } from '../../servers/postgres.js'
import type { ChaosServer } from '../place.js'
import type { EventsPlace } from './child.js'

export type EventsEngine = 'events-sqlite' | 'events-postgres'

export interface EventsGround {
  /** A fresh one, where nothing has happened yet. */
  place(folder: string): EventsPlace
  /** Ours to kill. */
  readonly server?: ChaosServer
  close(): Promise<void>
}

export function prepareEvents(
  engine: EventsEngine,
  settings: Readonly<Record<string, string>>,
): Promise<EventsGround> {
  return engine === 'events-sqlite' ? onFile() : onServer(settings)
}

async function onFile(): Promise<EventsGround> {
  return {
    place: (folder) => ({
      book: { engine: 'sqlite', file: join(folder, 'events.db') },
      jobs: jobsIn(folder),
    }),
    close: async () => {},
  }
}

async function onServer(settings: Readonly<Record<string, string>>): Promise<EventsGround> {
  const server = await startPostgres({ durable: true, settings: { synchronous_commit: 'on', ...settings } })
  if (server.dataDir === undefined)
    throw new Error('chaos kills its server; unset MILLRACE_POSTGRES_URL, so that it starts one of its own')
  let schemas = 0
  return {
    place: (folder) => ({
      book: { engine: 'postgres', url: server.url, schema: `chaos_${++schemas}` },
      jobs: jobsIn(folder),
    }),
    server,
    close: () => server.stop(),
  }
}

function jobsIn(folder: string): EventsPlace['jobs'] {
  return { engine: 'sqlite', file: join(folder, 'jobs.db') }
}
