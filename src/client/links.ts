import { bounds } from '../core/bounds.js'
import type { LinkRecord } from '../core/family.js'
import type { LinkQuery } from '../core/store.js'
import type { Runtime } from './runtime.js'

/** All links that match, page by page. */
export async function* linksOf(
  runtime: Runtime,
  query: Omit<LinkQuery, 'limit' | 'cursor'>,
): AsyncGenerator<LinkRecord, void, undefined> {
  let cursor: string | undefined
  do {
    const page = await runtime.store.links({ ...query, limit: bounds.page, cursor })
    yield* page.links
    cursor = page.cursor
  } while (cursor !== undefined)
}
