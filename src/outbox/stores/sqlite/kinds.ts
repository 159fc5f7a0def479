import type { Kind } from '../../store.js'

/** As they are kept. */
export const kindNumber: Readonly<Record<Kind, number>> = { job: 0, message: 1 }

export function kindOf(number: number): Kind {
  return number === 0 ? 'job' : 'message'
}
