/** Where the jobs of a test are; plain data, so that it can be handed to a child process. */
import type { Store } from 'millrace'
import { MemoryStore } from 'millrace/memory'
import { PostgresStore } from 'millrace/postgres'
import { RedisStore } from 'millrace/redis'
import { SqliteStore } from 'millrace/sqlite'

export type Place =
  | { readonly engine: 'memory' }
  | { readonly engine: 'sqlite'; readonly file: string }
  | { readonly engine: 'postgres'; readonly url: string; readonly schema: string }
  | { readonly engine: 'redis'; readonly url: string; readonly prefix: string }

/** Not open yet. */
export function storeAt(place: Place): Store {
  switch (place.engine) {
    case 'memory':
      return new MemoryStore()
    case 'sqlite':
      return new SqliteStore({ file: place.file, synchronous: 'normal' })
    case 'postgres':
      return new PostgresStore({ url: place.url, schema: place.schema })
    case 'redis':
      return new RedisStore({ url: place.url, prefix: place.prefix, warn: false })
  }
}
