/**
 * Watches transactions of callers that brought something: nobody else tells other processes when these commit. Only lowers
 * latency: one that is not watched, because there are too many or it takes too long, is found by workers that poll.
 */
import type { Connection } from './connection.js'
import { sqlState } from './errors.js'

interface Watched<News> {
  readonly since: number
  lookAt: number
  news: News
}

export class CommitWatch<News> {
  readonly #connection: Connection
  readonly #onCommit: (news: News) => void
  readonly #both: (earlier: News, later: News) => News
  /** By the id of the transaction, the oldest first. */
  readonly #watched = new Map<string, Watched<News>>()
  #timer: NodeJS.Timeout | undefined
  #nextLook = Number.POSITIVE_INFINITY
  #looking = false

  /** `both`: what there is to tell of a transaction that brought one and then the other. */
  constructor(
    connection: Connection,
    both: (earlier: News, later: News) => News,
    onCommit: (news: News) => void,
  ) {
    this.#connection = connection
    this.#both = both
    this.#onCommit = onCommit
  }

  watch(xid: string, news: News): void {
    const known = this.#watched.get(xid)
    if (known !== undefined) {
      known.news = this.#both(known.news, news)
      return
    }
    const since = performance.now()
    this.#watched.set(xid, { since, lookAt: since + leastMs, news })
    if (this.#watched.size > mostWatched) {
      const [oldest = ''] = this.#watched.keys()
      this.#watched.delete(oldest)
    }
    this.#lookAt(since + leastMs)
  }

  /** How many are watched. */
  get size(): number {
    return this.#watched.size
  }

  stop(): void {
    this.#watched.clear()
    clearTimeout(this.#timer)
  }

  #lookAt(time: number): void {
    if (this.#looking || this.#nextLook <= time) return
    this.#nextLook = time
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#look(), time - performance.now())
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    this.#looking = true
    const due = this.#due(performance.now())
    try {
      const { rows } = await this.#connection.query<Status>(statuses, [due], { patience: 0 })
      for (const { xid, status } of rows)
        if (status !== 'in progress') this.#over(xid, status === 'committed')
    } catch (error) {
      // A server that took over, or was restored, may never have seen such a transaction.
      if (sqlState(error) === invalidParameter) for (const xid of due) this.#watched.delete(xid)
    }
    this.#looking = false
    this.#nextLook = Number.POSITIVE_INFINITY
    this.#lookAgain()
  }

  #lookAgain(): void {
    if (this.#watched.size === 0) return
    const soonest = Math.min(...Array.from(this.#watched.values(), ({ lookAt }) => lookAt))
    this.#lookAt(Math.max(soonest, performance.now() + leastMs))
  }

  /** Those whose turn it is. The longer one takes, the more seldom it is looked at. */
  #due(now: number): string[] {
    const due: string[] = []
    for (const [xid, watched] of this.#watched) {
      if (watched.lookAt > now + leastMs) continue
      const age = now - watched.since
      if (age > longestMs) {
        this.#watched.delete(xid)
        continue
      }
      watched.lookAt = now + Math.min(mostMs, Math.max(leastMs, age / 2))
      due.push(xid)
    }
    return due
  }

  #over(xid: string, isCommitted: boolean): void {
    const watched = this.#watched.get(xid)
    if (watched === undefined) return // it was stopped meanwhile
    this.#watched.delete(xid)
    if (isCommitted) this.#onCommit(watched.news)
  }
}

const leastMs = 5
const mostMs = 250
const longestMs = 60_000
const mostWatched = 1_000

interface Status {
  readonly xid: string
  /** Null for one that is so old that the server has forgotten it. */
  readonly status: 'in progress' | 'committed' | 'aborted' | null
}

const invalidParameter = '22023'

const statuses = {
  name: 'millrace_commits',
  text: 'SELECT xid, pg_xact_status(xid::xid8) AS status FROM unnest($1::text[]) xid',
}
