/**
 * A lease's token tells where the job is, so that settling needs no look-up, and proves the right to it: the
 * claim's own token must match the lease's row. A checksum binds the parts to the job's id, so that a token
 * that was mixed up with another job's opens nothing.
 */
export interface Lease {
  readonly seq: number
  readonly kind: number
  readonly claim: string
  /** What an engine has to remember of it besides. */
  readonly note: string
}

export function leaseToken(id: string, seq: number, kind: number, claim: string, note = ''): string {
  const place = note === '' ? `${seq}.${kind}` : `${seq}.${kind}~${note}`
  return `${place}.${checksum(place, id)}.${claim}`
}

/** Undefined for a token that was not made for this job. */
export function readToken(id: string, token: string): Lease | undefined {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  const third = token.indexOf('.', second + 1)
  const place = token.slice(0, second)
  if (token.slice(second + 1, third) !== String(checksum(place, id))) return undefined
  const tilde = place.indexOf('~')
  return {
    seq: Number(place.slice(0, first)),
    kind: Number(tilde < 0 ? place.slice(first + 1) : place.slice(first + 1, tilde)),
    claim: token.slice(third + 1),
    note: tilde < 0 ? '' : place.slice(tilde + 1),
  }
}

/** FNV-1a. Guards against mistakes; against forgery the claim's token does. */
function checksum(place: string, id: string): number {
  return mix(mix(0x811c9dc5, place), id) >>> 0
}

function mix(start: number, text: string): number {
  let hash = start
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}
