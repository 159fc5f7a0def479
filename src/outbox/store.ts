/**
 * The contract between an outbox and the database that keeps it: the one that the caller's own data is in.
 *
 * Rules for every store; test/outbox checks them:
 * - What was written in a transaction is there if and only if that commits.
 * - A claim takes rows of whole slots: while it lasts nobody else gets a row of them, so rows of one key, which have one
 *   slot, leave in the order in which they were written.
 * - A claim that ends without `settle`, however that comes, leaves everything as it was. So does one that is `lost`.
 * - A row whose line is held, or that is behind one, is not claimed until the hold is over.
 * - Time that decides is the store's own clock.
 * - `subscribe` only lowers latency.
 */
export interface OutboxStore {
  readonly capabilities: {
    readonly engine: string
    /** The driver is synchronous: inside a transaction nothing is awaited, and `write` has happened when it returns. */
    readonly synchronous: boolean
    /** It can tell of rows as they are committed; see `follow`. */
    readonly replication: boolean
  }
  open(): Promise<void>
  close(): Promise<void>

  /** In the caller's transaction. Throws at once where the driver is synchronous. */
  write(rows: readonly NewRow[], tx: unknown): Promise<void>
  claim(request: ClaimRequest): Promise<Claim>
  /**
   * Takes all slots of a kind, for as long as it lasts, and tells of new rows as they are committed. Undefined while
   * another does. Refused where the database cannot do it.
   */
  follow(request: FollowRequest): Promise<Following | undefined>
  /** How much waits, bounded in cost; see `OutboxFigures`. */
  figures(): Promise<OutboxFigures>
  /** Rows that were set aside, the oldest first. */
  listAside(query: AsideQuery): Promise<readonly AsideRow[]>
  /** Back to the end of their lines. Answers which there were. */
  retryAside(ids: readonly string[]): Promise<readonly string[]>
  discardAside(ids: readonly string[]): Promise<readonly string[]>
  /** Forgets what is older than it is kept: a bounded number per call; true when there may be more. */
  prune(request: PruneRequest): Promise<boolean>

  /** Notes in the caller's transaction that a consumer has got a message; false when it had before. At once, where the driver is synchronous. */
  receive(consumer: string, id: string, tx: unknown): Promise<boolean> | boolean

  /** Rows of a kind may have come. */
  subscribe(listener: (kind: Kind | undefined) => void): () => void
}

/** A job goes to a Millrace, a message to a publisher. */
export type Kind = 'job' | 'message'

export interface NewRow {
  readonly kind: Kind
  /** Of the job or the message. */
  readonly id: string
  /** Of its kind; rows of one key have one. */
  readonly slot: number
  readonly key: string | undefined
  /** Of a message. */
  readonly topic: string | undefined
  /** Of a job as JSON, or of a message as its codec made it. */
  readonly body: string
  /** Of a message, as JSON. */
  readonly headers: string | undefined
}

export interface Row extends NewRow {
  /** In its slot. */
  readonly seq: number
  /** When it was written, and how many milliseconds ago that was. */
  readonly at: number
  readonly age: number
  /** How often the first row of its line has failed; undefined when nothing holds the line up. */
  readonly attempts: number | undefined
}

/** Rows of one line leave one after the other: those of a key, or a row without one. */
export function lineOf({ key, seq }: Pick<Row, 'key' | 'seq'>): string {
  return key === undefined ? `${seq}` : `k${key}`
}

/** Slots of each kind: as many relays can be at work at the same time. */
export const slots = 32

/** Bytes of one slot's rows in a claim, and one row more: of large ones there are few, so that all fit in memory. */
export const slotText = 1024 * 1024

export interface ClaimRequest {
  readonly kind: Kind
  readonly limit: number
  /** Slot to begin with, so that all have their turn. */
  readonly from: number
  /** Milliseconds for which it has to last at the most. */
  readonly within: number
  /** Keeps what is settled as done to be looked at. */
  readonly history: boolean
}

export interface Claim {
  /** By slot, and in it in their order. */
  readonly rows: readonly Row[]
  /** `lost`: it had lasted too long, or the connection is gone: its rows come again, unless that came after the commit. */
  settle(verdicts: readonly Verdict[]): Promise<'settled' | 'lost'>
  /** Gives everything back as it was. */
  release(): Promise<void>
}

export interface FollowRequest {
  readonly kind: Kind
  readonly history: boolean
  /** Milliseconds that a claim of what was there before may last. */
  readonly within: number
}

/** Whatever goes wrong ends it; rows that are not settled by then are still there, and are claimed. */
export interface Following {
  /** Of what was there when it began. None are left when it gives no rows. */
  claim(limit: number): Promise<Claim>
  /**
   * Rows that were committed since then, in their order, without those that were claimed, as soon as others can see them;
   * none after `ms` without any.
   */
  next(limit: number, ms: number): Promise<readonly Row[]>
  /** These are done. */
  settle(rows: readonly Row[]): Promise<void>
  /** Bytes that the database keeps because this has not come further. */
  lag(): Promise<number>
  /** Whether a row is there that is so much older, in milliseconds, than all that were told of that it must have been missed. */
  isLate(ms: number): Promise<boolean>
  close(): Promise<void>
}

/** What becomes of a claimed row, and with it of its line: the rows of its key, or itself when it has none. */
export type Verdict =
  | { readonly do: 'done' }
  /** It stays where it is, because one before it in its line does. */
  | { readonly do: 'leave' }
  /** It stays, and its line waits. */
  | { readonly do: 'hold'; readonly delay: number; readonly attempts: number; readonly failure: string }
  | { readonly do: 'set aside'; readonly attempts: number; readonly failure: string }

export interface OutboxFigures {
  /** Rows that wait, of each kind; `mostCounted` stands for that many or more. */
  readonly waiting: Readonly<Record<Kind, number>>
  /** Milliseconds since the oldest of them was written; 0 when none waits. */
  readonly oldest: Readonly<Record<Kind, number>>
  /** Lines that wait after a failure. */
  readonly held: Readonly<Record<Kind, number>>
  readonly aside: number
}

export const mostCounted = 10_000

export interface AsideQuery {
  readonly limit: number
  /** The position of the last one of the page before. */
  readonly after: number
}

export interface AsideRow extends NewRow {
  readonly position: number
  readonly at: number
  readonly asideAt: number
  readonly attempts: number
  readonly failure: string
}

export interface PruneRequest {
  /** Milliseconds for which each is kept; undefined leaves them alone. */
  readonly history: number | undefined
  readonly aside: number | undefined
  readonly received: { readonly consumer: string; readonly keep: number } | undefined
  readonly limit: number
}
