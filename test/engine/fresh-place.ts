import type { Place } from '../place.js'
import { freshSchema, serverUrl } from '../postgres/postgres.js'
import { engine } from './engines.js'
import { file } from './mill.js'

/** One for the engine under test, where there are no jobs yet; gone after the test. */
export function freshPlace(): Place {
  if (engine === 'sqlite') return { engine, file: file() }
  if (engine === 'postgres') return { engine, url: serverUrl(), schema: freshSchema() }
  return { engine: 'memory' }
}
