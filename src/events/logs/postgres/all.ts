import type { Queryable } from '../../../databases/postgres/transaction.js'
import { Horizon } from '../../horizon.js'
import type { AllPage, AllQuery } from '../../log.js'
import { type EventRow, toEvent } from '../rows.js'
import type { InSchema } from './in-schema.js'
import { all as sql } from './sql.generated.js'

/** In each row: of all that was looked at. */
interface Looked {
  readonly looked: number
  readonly last: number | null
  /** The last position before a gap that is not decided. */
  readonly stop: number | null
}

type PageRow = Looked & (EventRow | { readonly position: null })

/**
 * Reads by position, never past one that may still appear. Positions that follow each other need nothing else; for a gap
 * the writers are looked at, see writers.sql. What is read goes no further than what can be seen: a position that nobody
 * has seen may be given out again when the server has crashed.
 */
export class Reader {
  readonly #server: Queryable
  readonly #horizon = new Horizon()
  readonly #page: string
  readonly #writers: string
  readonly #seen: string
  #looking: Promise<unknown> = Promise.resolve()
  #nextLook: Promise<number> | undefined

  constructor(server: Queryable, inSchema: InSchema) {
    this.#server = server
    this.#page = inSchema(sql.page)
    this.#writers = inSchema(sql.writers)
    this.#seen = inSchema(sql.seen)
  }

  async all(query: AllQuery): Promise<AllPage> {
    const known = Math.max(query.after, this.#horizon.decided)
    const page = await this.#readPage(query)
    if (!page.pending) return page
    await this.#look()
    // What is decided now is read in a statement that begins after it was.
    return this.#horizon.decided > known ? this.#readPage(query) : page
  }

  /** A position that a writer keeps open is waited for, but not for long: then it ends before that. */
  async end(): Promise<number> {
    const head = await this.#look()
    for (let pause = 1; this.#horizon.decided < head && pause <= longestPause; pause *= 2) {
      await new Promise((resolve) => setTimeout(resolve, pause))
      await this.#look()
    }
    const { rows } = await this.#server.query<{ position: number }>({ text: this.#seen })
    return Math.max(this.#horizon.decided, rows[0]?.position ?? 0)
  }

  async #readPage({ after, limit, types, share }: AllQuery): Promise<AllPage> {
    const { part, of } = share ?? { part: 0, of: 1 }
    const { decided } = this.#horizon
    const { rows } = await this.#server.query<PageRow>({ name: 'millrace_all', text: this.#page }, [
      after,
      limit,
      decided,
      types ?? null,
      part,
      of,
    ])
    const { looked, last, stop } = rows[0] as PageRow
    const through = stop ?? last ?? after
    if (after <= decided) this.#horizon.reached(through)
    return {
      events: rows.flatMap((row) => (row.position === null ? [] : [toEvent(row)])),
      through,
      more: stop === null ? looked === limit : through > after,
      pending: stop === after,
    }
  }

  /**
   * Looks at the writers; resolves to the position up to which that may decide. One look at a time, as the horizon wants
   * them in their order; those who ask while one is under way share the next.
   */
  #look(): Promise<number> {
    if (this.#nextLook === undefined) {
      const look = this.#looking.then(() => {
        this.#nextLook = undefined
        return this.#lookNow()
      })
      this.#nextLook = look
      this.#looking = look.catch(() => {})
    }
    return this.#nextLook
  }

  async #lookNow(): Promise<number> {
    const { rows } = await this.#server.query<{ head: number; ids: string | null }>({
      name: 'millrace_writers',
      text: this.#writers,
    })
    const { head, ids } = rows[0] as { head: number; ids: string | null }
    if (ids !== null) this.#horizon.observe(head, new Set(ids === '' ? [] : ids.split(',')))
    return head
  }
}

/** The last of them, each twice as long as the one before: a quarter of a second in all. */
const longestPause = 128
