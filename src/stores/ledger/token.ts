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

/** How an engine makes and reads them. */
export interface Tokens {
  make(id: string, seq: number, kind: number, claim: string, note?: string): string
  /** Undefined for what was not made for this job, as far as the token itself tells. */
  read(id: string, token: string): Lease | undefined
}

export function leaseToken(id: string, seq: number, kind: number, claim: string, note = ''): string {
  const place = note === '' ? `${seq}.${kind}` : `${seq}.${kind}~${note}`
  return `${place}.${checksum(place, place.length, id)}.${claim}`
}

/** Undefined for a token that was not made for this job. */
export function readToken(id: string, token: string): Lease | undefined {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  const third = token.indexOf('.', second + 1)
  if (numberIn(token, second + 1, third) !== checksum(token, second, id)) return undefined
  const tilde = token.indexOf('~', first + 1)
  const hasNote = tilde >= 0 && tilde < second
  return {
    seq: numberIn(token, 0, first),
    kind: numberIn(token, first + 1, hasNote ? tilde : second),
    claim: token.slice(third + 1),
    note: hasNote ? token.slice(tilde + 1, second) : '',
  }
}

/** NaN where there is anything but digits. A text of its own would cost more: every settlement comes through here. */
function numberIn(text: string, from: number, to: number): number {
  if (from >= to) return Number.NaN
  let number = 0
  for (let i = from; i < to; i++) {
    const digit = text.charCodeAt(i) - 48
    if (digit < 0 || digit > 9) return Number.NaN
    number = number * 10 + digit
  }
  return number
}

export const checkedTokens: Tokens = { make: leaseToken, read: readToken }

/** FNV-1a of the place, which ends at `end`, and the id. Guards against mistakes; against forgery the claim's token does. */
function checksum(place: string, end: number, id: string): number {
  return mix(mix(0x811c9dc5, place, end), id, id.length) >>> 0
}

function mix(start: number, text: string, end: number): number {
  let hash = start
  for (let i = 0; i < end; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}
