import type { Entry } from './entry.js'

/** A worker and what it holds. Its expiry covers all of its claims: one thing to renew, however many run. */
export interface Worker {
  readonly id: string
  expiresAt: number
  /** Of a claim that has jobs still; or of the latest one, so that its repetition is known in any case. */
  leaseOf(token: string): Lease | undefined
  newLease(token: string, at: number): Lease
  leases(): Iterable<Lease>
  /** Up to `most` of its jobs, in the order of the line. */
  held(most: number): readonly Entry[]
}

/** One claim's right to its jobs. */
export interface Lease {
  readonly worker: Worker
  readonly token: string
  readonly at: number
  /** How many jobs it has. */
  readonly size: number
  add(entry: Entry): void
  drop(entry: Entry): void
  /** As they were claimed. */
  held(): readonly Entry[]
}

export interface Workers {
  get(id: string): Worker | undefined
  /** Renews its lease; one that was given up starts anew. */
  renew(id: string, expiresAt: number): Worker
  /** Those whose lease ran out. */
  lapsed(now: number): Iterable<Worker>
  forget(worker: Worker): void
}
