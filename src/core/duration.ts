import { bounds } from './bounds.js'
import { MillraceError, show } from './errors.js'

/** Milliseconds, or a number with a unit: `'250ms'`, `'5s'`, `'10m'`, `'2h'`, `'7d'`, `'1w'`. */
export type Duration = number | `${number}${Unit}` | (string & {})

type Unit = 'ms' | 's' | 'm' | 'h' | 'd' | 'w'

const unitMs: Record<Unit, number> = { ms: 1, s: 1000, m: 60_000, h: 3600_000, d: 86_400_000, w: 604_800_000 }
const pattern = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)$/

/** Whole milliseconds, or a typed error that names `field`. */
export function milliseconds(value: Duration, field: string, most: number = bounds.delay): number {
  const ms = Math.round(parse(value))
  if (Number.isNaN(ms) || ms < 0 || ms > most) {
    throw new MillraceError(
      'INVALID_DELAY',
      `${field} is ${show(value)}; expected milliseconds or a duration such as '250ms', '5s', '10m', '2h' or '7d', from 0 to ${most} ms`,
      { field, value, limit: most },
    )
  }
  return ms
}

function parse(value: Duration): number {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return Number.NaN
  const match = pattern.exec(value)
  return match ? Number(match[1]) * unitMs[match[2] as Unit] : Number.NaN
}
