/**
 * A lease's token tells where the job is, so that settling needs no look-up, and proves the right to it:
 * the claim's own token must match the lease's row.
 */
export interface Lease {
  readonly seq: number
  readonly kind: number
  readonly claim: string
}

export function leaseToken(seq: number, kind: number, claim: string): string {
  return `${seq}.${kind}.${claim}`
}

/** A token that was not made here gives a lease that no row matches. */
export function readToken(token: string): Lease {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  return {
    seq: Number(token.slice(0, first)) || 0,
    kind: Number(token.slice(first + 1, second)) || 0,
    claim: token.slice(second + 1),
  }
}
