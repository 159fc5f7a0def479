/**
 * Idempotency. A guard is a key that one holder at a time may work under, and that remembers what came of it: who
 * comes later gets the stored result instead of doing it again.
 */

/** Of a new job: written with its settlement. The job itself is the holder from its first claim to its end. */
export interface NewGuard {
  readonly key: string
  /** Milliseconds that the record outlasts the job's completion. */
  readonly retain: number
}

/** What a claim found under the job's key. */
export interface ClaimedGuard extends NewGuard {
  /** `busy`: another job holds it. */
  readonly status: 'begun' | 'busy' | 'done'
  /** Of `done`: what came of it. */
  readonly result: string | undefined
}

export type GuardRequest =
  /** Takes the key for `lease` ms. With the holder that has it, renews that. */
  | { readonly do: 'begin'; readonly key: string; readonly holder: string; readonly lease: number }
  | {
      readonly do: 'complete'
      readonly key: string
      readonly holder: string
      readonly result: string | undefined
      readonly retain: number
    }
  /** Lets go of the key, so that another may try. */
  | { readonly do: 'fail'; readonly key: string; readonly holder: string }

/** `applied` and `lost` answer `complete` and `fail`, the others `begin`. */
export interface GuardResult {
  readonly status: 'begun' | 'busy' | 'done' | 'applied' | 'lost'
  readonly result: string | undefined
  /** Of `busy`: milliseconds after which the holder's lease ends; undefined when it is a job. */
  readonly retryIn: number | undefined
}
