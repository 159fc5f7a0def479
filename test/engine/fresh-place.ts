import type { Place } from '../place.js'
import { freshSchema, serverUrl } from '../postgres/postgres.js'
import { engine, isRedis } from './engines.js'
import { file, freshPrefix } from './mill.js'
import { redisUrl } from './prefixes.js'

/** One for the engine under test, where there are no jobs yet; gone after the test. */
export function freshPlace(): Place {
  if (engine === 'sqlite') return { engine, file: file() }
  if (engine === 'postgres') return { engine, url: serverUrl(), schema: freshSchema() }
  if (isRedis) return { engine: 'redis', url: redisUrl(), prefix: freshPrefix() }
  return { engine: 'memory' }
}
