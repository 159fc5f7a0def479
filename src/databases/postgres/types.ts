import type { PgTypes } from './driver.js'

/**
 * How values arrive, whatever the caller has told the driver globally: numbers as numbers (ours are below 2^53),
 * booleans as such, lists of whole numbers as arrays, and anything else as the text that the server sent.
 */
export const types: PgTypes = {
  getTypeParser: (oid: number, format?: string) => (format === 'binary' ? asIs : (parsers[oid] ?? asIs)),
}

const parsers: Record<number, (text: string) => unknown> = {
  16: (text) => text === 't',
  20: Number,
  21: Number,
  23: Number,
  26: Number,
  700: Number,
  701: Number,
  1700: Number,
  1005: numbers,
  1007: numbers,
  1016: numbers,
}

function asIs<T>(value: T): T {
  return value
}

function numbers(text: string): (number | null)[] {
  if (text === '{}') return []
  return text
    .slice(1, -1)
    .split(',')
    .map((item) => (item === 'NULL' ? null : Number(item)))
}
