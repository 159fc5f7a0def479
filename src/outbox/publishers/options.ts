import { type Duration, milliseconds } from '../../core/duration.js'
import { integer, invalid, unshown } from '../../core/options.js'

export const mostInFlight = 10_000

export function flag(value: boolean, field: string): boolean {
  if (typeof value !== 'boolean') throw invalid(field, value, 'true or false')
  return value
}

export function timeout(value: Duration, field: string): number {
  return integer(milliseconds(value, field), field, 10, longestTimeout)
}

const longestTimeout = 600_000

/** Options for a driver, which may hold a password. */
export function group(value: object, field: string): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw unshown(field, 'an object with options')
  return value
}
