import type { PostgresPlace, SqlitePlace } from '../place.js'

/** Of the log, with the caller's own tables beside it. */
export type BookPlace = PostgresPlace | SqlitePlace

/** Where one run is: plain data, so that it can be handed to a child process. */
export interface EventsPlace {
  readonly book: BookPlace
  /** Of the Millrace that gets the jobs of reactions. */
  readonly jobs: SqlitePlace
}

/** What every child process needs to know. */
export interface EventsChildConfig {
  readonly place: EventsPlace
  readonly journals: string
  readonly name: string
  readonly seed: number
}
