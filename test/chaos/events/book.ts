/**
 * The caller's own side of the log's database: transactions that append, read models, and what is kept in the end, read
 * without the code under test.
 */
import type { EventLog, TableContext } from 'millrace/events'

export interface Book {
  log(): EventLog
  /** Makes the caller's own tables. */
  setUp(): Promise<void>
  begin(): Promise<BookTransaction>
  readonly models: ReadModels
  count(): Promise<number>
  /** In the order of their positions. */
  events(): Promise<KeptEvent[]>
  /** In the order in which they were written, as far as one hand wrote them. */
  sightings(): Promise<Sighting[]>
  totals(table: string): Promise<Total[]>
  /** Of read models. */
  tables(): Promise<string[]>
  close(): Promise<void>
}

export interface BookTransaction {
  /** Of the driver. */
  readonly tx: unknown
  commit(): Promise<void>
  /** Also when something went wrong. */
  rollback(): Promise<void>
}

/** What handlers write, all of it in their transactions. */
export interface ReadModels {
  create(context: TableContext): unknown
  drop(context: TableContext): unknown
  /** An event: that it was seen, and what it adds to the total of its stream. */
  note(context: TableContext, reader: string, event: NotedEvent): unknown
}

export interface NotedEvent {
  readonly position: number
  readonly stream: string
  readonly version: number
  readonly data: { readonly key: string; readonly amount: number }
}

export interface KeptEvent {
  readonly position: number
  readonly stream: string
  readonly version: number
  readonly type: string
  readonly key: string
  readonly amount: number
}

export interface Sighting {
  readonly reader: string
  readonly generation: number
  readonly position: number
  readonly key: string
}

/** What the events of a stream come to; `digest` depends on their order. */
export interface Total {
  readonly stream: string
  readonly count: number
  readonly sum: number
  readonly digest: number
  readonly version: number
}

export const digests = { factor: 31, modulus: 1_000_003 } as const
