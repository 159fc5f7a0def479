import type { Place } from '../place.js'
import type { BusinessPlace } from './business.js'

/** Where one run is: plain data, so that it can be handed to a child process. */
export interface OutboxPlace {
  readonly business: BusinessPlace
  /** Of the Millrace that gets the jobs. */
  readonly target: Place
  /** What has left. */
  readonly delivered: string
}

/** What every child process needs to know. */
export interface OutboxChildConfig {
  readonly place: OutboxPlace
  readonly journals: string
  readonly name: string
  readonly seed: number
}
