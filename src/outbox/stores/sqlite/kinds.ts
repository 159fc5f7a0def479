import type { Kind, Row } from '../../store.js'

/** As they are kept. */
export const kindNumber: Readonly<Record<Kind, number>> = { job: 0, message: 1 }

export function kindOf(number: number): Kind {
  return number === 0 ? 'job' : 'message'
}

/** What its row waits for, and those behind it. */
export function lineOf({ key, seq }: Pick<Row, 'key' | 'seq'>): string {
  return key === undefined ? String(seq) : `k${key}`
}
