import type { Clock } from '../core/clock.js'
import { MillraceError } from '../core/errors.js'
import { unshown } from '../core/options.js'
import type { OutboxStore } from './store.js'

/** Stores by the scheme of their URL; each is loaded when it is used, so that its driver stays optional. */
const stores: Record<string, (rest: string, clock: Clock, url: string) => Promise<OutboxStore>> = {
  sqlite: async (file, clock) => new (await import('./stores/sqlite/index.js')).SqliteOutbox({ file, clock }),
  postgres,
  postgresql: postgres,
}

/** The server's own clock decides. */
async function postgres(_rest: string, _clock: Clock, url: string): Promise<OutboxStore> {
  return new (await import('./stores/postgres/index.js')).PostgresOutbox({ url })
}

const expected =
  "'sqlite:file.db', 'postgres://user@host/database' or an outbox's store, such as postgresOutbox({ pool })"

/** Complains at once, before anything is opened. */
export function checkStore(store: string | OutboxStore): void {
  if (typeof store === 'string') split(store)
  else if (typeof store?.claim !== 'function') throw unshown('store', expected)
}

export async function storeOf(store: string | OutboxStore, clock: Clock): Promise<OutboxStore> {
  if (typeof store !== 'string') return store
  const { make, rest } = split(store)
  return make(rest, clock, store)
}

/** What is in memory is not where the caller's data is. */
function isFile(name: string): boolean {
  return name !== '' && name !== ':memory:'
}

/** Says nothing of the URL itself, which may hold a password. */
function split(url: string) {
  const [, scheme = '', rest = ''] = /^([a-z]+):(?:\/\/(?=\/))?(.*)$/s.exec(url) ?? []
  const make = stores[scheme]
  if (make !== undefined && (scheme !== 'sqlite' || isFile(rest))) return { make, rest }
  throw new MillraceError(
    'INVALID_OPTION',
    `an outbox is kept in the caller's own database, and there is none for '${scheme || 'no scheme'}'; expected ${expected}`,
    { field: 'store' },
  )
}
