import type { Clock } from '../core/clock.js'
import { invalid } from '../core/options.js'
import { systemClock } from '../system/clock.js'
import type { EventLog } from './log.js'

/** Logs by the scheme of their URL; each is loaded when it is used, so that its driver stays optional. */
const engines: Record<string, (rest: string, clock: Clock, url: string) => Promise<EventLog>> = {
  memory: async (_rest, clock) => (await import('./logs/memory/index.js')).memoryLog({ clock }),
  sqlite: async (rest, clock) => (await import('./logs/sqlite/index.js')).sqliteLog({ file: rest, clock }),
  postgres,
  postgresql: postgres,
}

/** The server's own clock decides, unless a test brings one. */
async function postgres(_rest: string, clock: Clock, url: string): Promise<EventLog> {
  const { postgresLog } = await import('./logs/postgres/index.js')
  return postgresLog({ url, ...(clock !== systemClock && { clock }) })
}

const expected = "'memory:', 'sqlite:file.db', 'postgres://user@host/database' or a log object"

/** Complains at once, before anything is opened. */
export function checkLog(log: string | EventLog): void {
  if (typeof log === 'string') split(log)
  else if (typeof log?.append !== 'function') throw invalid('log', log, expected)
}

export function logFromUrl(url: string, clock: Clock): Promise<EventLog> {
  const { engine, rest } = split(url)
  return engine(rest, clock, url)
}

function split(url: string): { engine: (typeof engines)[string]; rest: string } {
  const [, scheme = '', rest = ''] = /^([a-z]+):(?:\/\/(?=\/))?(.*)$/s.exec(url) ?? []
  const engine = engines[scheme]
  // A URL may have a password in it: its scheme is all that is shown.
  if (engine === undefined) throw invalid('log', scheme, expected)
  if (scheme === 'sqlite' && rest === '') throw invalid('log', url, "a path, as in 'sqlite:app.db'")
  return { engine, rest }
}
