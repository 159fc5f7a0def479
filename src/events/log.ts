/**
 * The contract between an event store and what keeps its events. Batch first.
 *
 * Rules for every log; test/events/log-*.test.ts check them:
 * - Positions grow; an event of a stream has a higher position than those before it in the stream.
 * - Versions of a stream are 1, 2, 3 and so on, without gaps, whatever is removed later.
 * - Of appends that expect the same version of a stream, one wins.
 * - An append is idempotent by its id: asked for again, it answers as it did.
 * - `all` never goes past a position that may still appear, however long its writer takes; one that was rolled back
 *   holds up nobody.
 * - A checkpoint moves only under the token of its lease, in the transaction that was given, if one was.
 * - Time that decides about leases is the log's own clock.
 * - `subscribe` only lowers latency.
 * - What cannot be done as asked, such as a rebuild of a projection that is not there or an id that another stream has,
 *   is a `MillraceError` STORE_REFUSED, and nothing of that call is done. The caller's transaction can go on.
 */
export interface EventLog {
  readonly capabilities: LogCapabilities
  open(): Promise<void>
  close(): Promise<void>

  /**
   * Adds events, each append by itself: one that is refused says so in its result and leaves the others alone. With `tx`,
   * the caller's own transaction or one of `begin`, they exist if and only if it commits. Where the driver is synchronous
   * the write has then happened when `append` returns, and what it returns are the results themselves, no promise: a
   * conflict has to be thrown while the caller's function runs, which commits as it returns.
   */
  append(appends: readonly Append[]): Promise<AppendResult[]>
  append(appends: readonly Append[], tx: unknown): AppendResult[] | Promise<AppendResult[]>
  /** The events of one stream, by version. */
  stream(query: StreamQuery): Promise<StreamPage>
  /** The events of all streams, by position. */
  all(query: AllQuery): Promise<AllPage>
  /** The position of the newest event that can be read, 0 when there never was one. */
  end(): Promise<number>
  /** A transaction of the log's own, for projections. */
  begin(): Promise<LogTransaction>

  /** The newest one of this name, if there is one. */
  snapshot(stream: string, name: string): Promise<SnapshotRecord | undefined>
  /**
   * Keeps it instead of an older one; one that is newer, or of a newer form, stays. Not if its last event is gone: what was
   * erased must not come back.
   */
  keepSnapshot(snapshot: SnapshotRecord): Promise<void>

  /**
   * Makes a projection known, with its parts at their first position, unless it is there. Answers what is there. With a
   * `tx` of `begin` it is a write of that transaction; another process that declares the same waits for its end, so that
   * one of them alone finds it `fresh` and makes its tables.
   */
  declare(projection: NewProjection, tx?: unknown): Promise<DeclaredProjection>
  /** Forgets a projection with its checkpoints, in `tx` if one is given; none of this name is fine too. */
  forget(name: string, tx?: unknown): Promise<void>
  projections(): Promise<ProjectionRecord[]>
  /**
   * Takes, or renews, the lease of one part; undefined while another holds it, or when there is no such part. One that has
   * run out is renewed unless another has had it since, whether that one still has it or not.
   */
  hold(request: HoldRequest): Promise<Held | undefined>
  /** Moves a checkpoint, and with `done` gives the lease back; `lost` when the lease is another's. */
  advance(request: AdvanceRequest, tx?: unknown): Promise<'advanced' | 'lost'>
  /** Begins, ends and gives up a rebuild; with `tx` a write of that transaction. */
  rebuild(change: RebuildChange, tx?: unknown): Promise<ProjectionRecord>

  /**
   * Events that a policy has no more use for, those of a stream in their order; never beyond `through`. They come again
   * until they are removed. A call looks at a bounded number of events and may find none among them; the next one looks on.
   */
  surplus(query: SurplusQuery): Promise<Surplus>
  /** Removes them for good. Versions and positions of the others stay. */
  remove(positions: readonly number[]): Promise<void>
  /** Removes a stream's events and snapshots, a bounded number per call; true when there is nothing left. Its version stays. */
  erase(stream: string, limit: number): Promise<boolean>

  subscribe(listener: () => void): () => void
}

export interface LogCapabilities {
  readonly engine: string
  /** Survives the process. */
  readonly durable: boolean
  /** Other processes can share it. */
  readonly shared: boolean
  /** The driver is synchronous: inside the caller's transaction nothing may be awaited in between. */
  readonly synchronous: boolean
}

/** What the stream has to be like: at this version, there, not there, or whatever it is. */
export type Expected = number | 'exists' | 'none' | 'any'

export interface Append {
  /** The first event's. */
  readonly id: string
  readonly stream: string
  readonly expected: Expected
  /** At least one. */
  readonly events: readonly NewEvent[]
}

export interface NewEvent {
  /** A UUID, in lower case. */
  readonly id: string
  readonly type: string
  /** Of the form of its data, 0 when it has none. */
  readonly schema: number
  /** Encoded. */
  readonly data: string
  /** Encoded; who caused it, and the like. */
  readonly meta: string | undefined
}

export type AppendResult =
  /** `version` and `position` are those of the last event; `repeated`: it had been appended before. */
  | {
      readonly status: 'appended'
      readonly version: number
      readonly position: number
      readonly at: number
      readonly repeated: boolean
    }
  /** Another version than was expected; 0 for a stream that is not there. */
  | { readonly status: 'conflict'; readonly version: number }

export interface StoredEvent extends NewEvent {
  readonly position: number
  readonly stream: string
  /** In its stream, from 1 on. */
  readonly version: number
  /** Epoch milliseconds by the log's clock. */
  readonly at: number
}

export interface StreamQuery {
  readonly stream: string
  /** Versions above it, or below it when `backwards`. */
  readonly after: number
  readonly backwards: boolean
  readonly limit: number
}

export interface StreamPage {
  readonly events: readonly StoredEvent[]
  /** Of the stream, whatever is kept of it; 0 when it is not there. */
  readonly version: number
}

export interface AllQuery {
  /** Positions above it. */
  readonly after: number
  /** How many positions are looked at. */
  readonly limit: number
  /** Only these types; undefined for all. */
  readonly types: readonly string[] | undefined
  /** Only streams whose slot, modulo `of`, is `part`; see slot.ts. */
  readonly share: { readonly part: number; readonly of: number } | undefined
}

export interface AllPage {
  readonly events: readonly StoredEvent[]
  /**
   * Everything up to here has been looked at and will never change; a page may end before a gap, with `more` behind it.
   */
  readonly through: number
  /** There is more to read at once. */
  readonly more: boolean
  /** A writer is at work on what comes next: it is worth looking again in a moment. */
  readonly pending: boolean
}

export interface LogTransaction {
  /** What handlers write with: a pg client, a better-sqlite3 database. */
  readonly tx: unknown
  commit(): Promise<void>
  rollback(): Promise<void>
}

export interface SnapshotRecord {
  readonly stream: string
  /** The aggregate's. */
  readonly name: string
  /** Of the form of the state. */
  readonly schema: number
  /** The last event in it. */
  readonly version: number
  /** Encoded. */
  readonly state: string
}

export interface NewProjection {
  readonly name: string
  /** Shares of the streams that are worked on side by side, each in order; fixed once it is known. */
  readonly parts: number
  /** The position from which on its first generation sees events; later ones begin at 0. */
  readonly after: number
}

export interface DeclaredProjection extends ProjectionRecord {
  /** It was not there before. */
  readonly fresh: boolean
}

/**
 * A projection is built in generations: one is live, another may be built beside it. Each generation has a checkpoint
 * per part.
 */
export interface ProjectionRecord {
  readonly name: string
  readonly parts: number
  /** The generation that readers use, from 1 on. */
  readonly live: number
  /** The one that is being built, if any. */
  readonly building: number | undefined
  readonly checkpoints: readonly Checkpoint[]
}

export interface Checkpoint {
  readonly generation: number
  readonly part: number
  /** Everything up to here is done. */
  readonly position: number
  /** Who works on it, while its lease stands. */
  readonly owner: string | undefined
}

export interface HoldRequest {
  readonly name: string
  readonly generation: number
  readonly part: number
  /** Fresh for each worker that takes it; the same renews it. */
  readonly token: string
  /** Only its own lease: one that nobody has is not taken. @default false */
  readonly renewal?: boolean
  /** Its name, to be seen. */
  readonly owner: string
  /** Milliseconds. */
  readonly lease: number
}

export interface Held {
  readonly position: number
}

export interface AdvanceRequest {
  readonly name: string
  readonly generation: number
  readonly part: number
  readonly token: string
  readonly position: number
  /** Gives the lease back. */
  readonly done: boolean
}

export type RebuildChange =
  /** Refused while one is under way. */
  | { readonly do: 'begin'; readonly name: string }
  /**
   * The generation that was built becomes the live one. It must not be behind, which the caller sees to by holding all
   * parts of both, and advancing them in the same transaction. The old one's checkpoints go, the new one's stay.
   */
  | { readonly do: 'swap'; readonly name: string; readonly generation: number }
  | { readonly do: 'abandon'; readonly name: string; readonly generation: number }

export interface Surplus {
  readonly events: readonly StoredEvent[]
  /** There are events of the category that this call and those before it have not looked at. */
  readonly more: boolean
}

export interface SurplusQuery {
  /** The part of a stream's name before its first '-'. */
  readonly category: string
  /** Older than this many milliseconds. */
  readonly age: number
  /** Only those that a later event of their stream has taken the place of. */
  readonly superseded: boolean
  /** Positions up to this one. */
  readonly through: number
  readonly limit: number
}
