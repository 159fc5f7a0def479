import type { Clock } from './core/clock.js'
import { MillraceError } from './core/errors.js'
import { invalid } from './core/options.js'
import type { Store } from './core/store.js'
import { parseUrl } from './stores/redis/url.js'
import { systemClock } from './system/clock.js'

/** Engines by the scheme of their URL; each is loaded when it is used, so that its driver stays optional. */
const engines: Record<string, (rest: string, clock: Clock, url: string) => Promise<Store>> = {
  memory: async (_rest, clock) => new (await import('./stores/memory/index.js')).MemoryStore({ clock }),
  sqlite: async (rest, clock) =>
    new (await import('./stores/sqlite/index.js')).SqliteStore({ file: rest, clock }),
  postgres,
  postgresql: postgres,
  redis,
  rediss: redis,
  'redis+cluster': redis,
  'redis+sentinel': redis,
}

/** The server's own clock decides, unless a test brings one. */
async function postgres(_rest: string, clock: Clock, url: string): Promise<Store> {
  const { PostgresStore } = await import('./stores/postgres/index.js')
  return new PostgresStore({ url, ...(clock !== systemClock && { clock }) })
}

async function redis(_rest: string, clock: Clock, url: string): Promise<Store> {
  const { RedisStore } = await import('./stores/redis/index.js')
  return new RedisStore({ url, ...(clock !== systemClock && { clock }) })
}

const expected =
  "'memory:', 'sqlite:file.db', 'postgres://user@host/database', 'redis://host' or a store object"

/** Complains at once, before anything is opened. */
export function checkStore(store: string | Store): void {
  if (typeof store === 'string') {
    split(store)
  } else if (typeof store?.exchange !== 'function') {
    throw invalid('store', store, expected)
  }
}

export function storeFromUrl(url: string, clock: Clock): Promise<Store> {
  const { engine, rest } = split(url)
  return engine(rest, clock, url)
}

function split(url: string): { engine: (typeof engines)[string]; rest: string } {
  const [, scheme = '', rest = ''] = /^([a-z+]+):(?:\/\/(?=\/))?(.*)$/s.exec(url) ?? []
  const engine = engines[scheme]
  if (engine === undefined) {
    throw new MillraceError(
      'INVALID_OPTION',
      `store has no engine for '${scheme || 'no scheme'}'; expected ${expected}`,
      { field: 'store' },
    )
  }
  if (scheme === 'sqlite' && rest === '') throw invalid('store', url, "a path, as in 'sqlite:jobs.db'")
  if (engine === redis) parseUrl(url)
  return { engine, rest }
}
