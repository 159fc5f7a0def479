/** What there is to tell of a transaction that has committed. */
export interface CommitNews {
  /** Queues that have jobs now. */
  readonly ready: ReadonlySet<string>
  /** Milliseconds until the first of the others is due. */
  readonly soonest: number | undefined
  /** Rows that the desk has to admit. */
  readonly arrivals: number
}

export function both(a: CommitNews, b: CommitNews): CommitNews {
  return {
    ready: new Set([...a.ready, ...b.ready]),
    soonest: least(a.soonest, b.soonest),
    arrivals: a.arrivals + b.arrivals,
  }
}

function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
