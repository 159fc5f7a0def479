/**
 * The only source of time. Stores decide with `now`; workers measure deadlines with `monotonic`, which a
 * change of the wall clock cannot move. Tests pass a virtual clock, one per instance.
 */
export interface Clock {
  /** Epoch milliseconds, whole ones. */
  now(): number
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonic(): number
  /** Calls `fn` once after `ms`, however long that is. Returns a function that cancels it. */
  after(ms: number, fn: () => void): () => void
}
