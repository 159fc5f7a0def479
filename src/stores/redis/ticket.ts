/**
 * A job's handle is what it is stored by: its id, if that has the form of those that we make. Its first eleven characters name the
 * hashes that the job is in: of an id that we made they are its time, to about a quarter of a second, so that jobs that come
 * together are found together. Other ids have a number in front of them that spreads them over 4096 hashes, a hundred children of
 * a flow together. A ticket is a job's position, in eleven hexadecimal digits, followed by its handle.
 */

export function handleOf(id: string): string {
  if (isOwn(id)) return id
  let sum = 0
  for (let i = 0; i < id.length - 2; i++) sum = (sum * 31 + id.charCodeAt(i)) % 4096
  return `=${sum.toString(16).padStart(3, '0')}=======${id}`
}

/** Has the form of one that we made; others may have it too. */
function isOwn(id: string): boolean {
  return (
    id.length === 36 &&
    id[8] === '-' &&
    id[13] === '-' &&
    id[14] === '7' &&
    id[18] === '-' &&
    id[23] === '-' &&
    id[0] !== '='
  )
}

const equalsSign = 61

export function idOf(handle: string): string {
  return handle.charCodeAt(0) === equalsSign ? handle.slice(11) : handle
}

export function ticketOf(seq: number, id: string): string {
  return position(seq) + handleOf(id)
}

/** The position that begins there in a text; NaN if none does. Every job's end comes through here, so no text is made. */
export function seqIn(text: string, from = 0): number {
  const end = from + positionDigits
  if (text.length < end) return Number.NaN
  let seq = 0
  for (let i = from; i < end; i++) seq = seq * 16 + digitOf(text.charCodeAt(i))
  return seq
}

function digitOf(code: number): number {
  if (code >= 48 && code <= 57) return code - 48
  return code >= 97 && code <= 102 ? code - 87 : Number.NaN
}

export function idIn(ticket: string): string {
  return idOf(ticket.slice(positionDigits))
}

export const positionDigits = 11

/** Sorts as a text. */
export function position(seq: number): string {
  return seq.toString(16).padStart(positionDigits, '0')
}

/** A number that sorts as a text. */
export function sortable(n: number): string {
  return String(n).padStart(16, '0')
}
