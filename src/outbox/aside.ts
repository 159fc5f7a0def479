import { bounds } from '../core/bounds.js'
import { integer, noUnknown } from '../core/options.js'
import type { AsideRow, OutboxStore } from './store.js'

export interface AsideList {
  readonly rows: readonly AsideRow[]
  /** Goes on where this page ended; undefined at the end. */
  readonly cursor: number | undefined
}

/** Rows that were refused too often. They wait here for somebody to look, and hold up nobody. */
export class Aside {
  readonly #ready: () => Promise<OutboxStore>

  constructor(ready: () => Promise<OutboxStore>) {
    this.#ready = ready
  }

  /** The oldest first, page by page. */
  async list(
    page: { readonly limit?: number; readonly cursor?: number | undefined } = {},
  ): Promise<AsideList> {
    noUnknown(page, ['limit', 'cursor'], 'list')
    const limit = integer(page.limit ?? 100, 'limit', 1, bounds.page)
    const after = integer(page.cursor ?? 0, 'cursor', 0, Number.MAX_SAFE_INTEGER)
    const store = await this.#ready()
    const rows = await store.listAside({ limit, after })
    return { rows, cursor: rows.length < limit ? undefined : rows.at(-1)?.position }
  }

  /** Hands these on after all: behind what waits of their keys. Gives the ids that were there. */
  async retry(...ids: readonly string[]): Promise<readonly string[]> {
    return (await this.#ready()).retryAside(ids)
  }

  /** Forgets these for good. Gives the ids that were there. */
  async discard(...ids: readonly string[]): Promise<readonly string[]> {
    return (await this.#ready()).discardAside(ids)
  }
}
