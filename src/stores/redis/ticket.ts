/**
 * A job's handle is its id in the form that it is stored by. The first ten characters name the hashes that the job is in: of an id
 * that we made they are its time, to about a quarter of a second, so that jobs that come together are found together; other
 * ids are spread over 4096 of them, a hundred children of a flow together. A ticket is a job's position, in eleven hexadecimal
 * digits, followed by its handle.
 */

export function handleOf(id: string): string {
  if (isOwn(id)) return id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24)
  let sum = 0
  for (let i = 0; i < id.length - 2; i++) sum = (sum * 31 + id.charCodeAt(i)) % 4096
  return `=${sum.toString(16).padStart(3, '0')}======${id}`
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

export function idOf(handle: string): string {
  if (handle.startsWith('=')) return handle.slice(10)
  return `${handle.slice(0, 8)}-${handle.slice(8, 12)}-${handle.slice(12, 16)}-${handle.slice(16, 20)}-${handle.slice(20)}`
}

export function ticketOf(seq: number, id: string): string {
  return position(seq) + handleOf(id)
}

export function seqIn(ticket: string): number {
  return Number.parseInt(ticket.slice(0, 11), 16)
}

export function idIn(ticket: string): string {
  return idOf(ticket.slice(11))
}

/** Sorts as a text. */
export function position(seq: number): string {
  return seq.toString(16).padStart(11, '0')
}

/** A number that sorts as a text. */
export function sortable(n: number): string {
  return String(n).padStart(16, '0')
}
