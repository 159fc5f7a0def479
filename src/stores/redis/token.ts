/**
 * A lease's token on Redis: the job's position as its ticket has it, its kind with a note if there is one, and the claim's own
 * token. Nothing in it names the job: a ticket is a position and an id, so the position of another job finds nothing.
 */
import type { Lease, Tokens } from '../ledger/token.js'
import { position, positionDigits, seqIn } from './ticket.js'

export const tokens: Tokens = {
  make: (_id, seq, kind, claim, note) => position(seq) + tokenEnd(kind, claim, note),
  read(_id, token) {
    const seq = seqIn(token)
    const end = readTokenEnd(token.slice(positionDigits))
    return Number.isNaN(seq) || end === undefined ? undefined : { seq, ...end }
  },
}

/** What tokens of one claim and kind have in common. */
export function tokenEnd(kind: number, claim: string, note = ''): string {
  return note === '' ? `${kind}.${claim}` : `${kind}~${note}.${claim}`
}

export function readTokenEnd(text: string): Omit<Lease, 'seq'> | undefined {
  const [, kind, note = '', claim] = /^(\d{1,9})(?:~([\d:]+))?\.(.+)$/s.exec(text) ?? []
  return claim === undefined ? undefined : { kind: Number(kind), note, claim }
}

/** Whether a gate of its own, or of its group, is to be told of the job's end. */
export function tellsOfGate(token: string): boolean {
  return token.includes('~', positionDigits)
}

/** Whether several are. */
export function tellsOfSeveral(token: string): boolean {
  return token.includes(':', positionDigits) && tellsOfGate(token)
}
