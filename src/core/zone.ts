/** Time zones: what their clocks show, in milliseconds as if it were UTC. */
import { Memo } from './memo.js'

const day = 86_400_000

/** What the clock shows at this time. */
export function shownAt(zone: string, time: number): number {
  return time + offsetAt(zone, time)
}

/** The first time at which the clock shows this or, when it jumps over it, something later. */
export function firstShown(zone: string, shown: number): number {
  // No clock is a day away from UTC, and none is changed twice in two days.
  const before = offsetAt(zone, shown - day)
  const after = offsetAt(zone, shown + day)
  const first = shown - before
  if (before === after || offsetAt(zone, first) === before) return first
  const second = shown - after
  return offsetAt(zone, second) === after ? second : changeBetween(zone, second - day, first + day)
}

/** When the clock is changed, given that it is between these times. */
function changeBetween(zone: string, from: number, to: number): number {
  const before = offsetAt(zone, from)
  let low = from
  let high = to
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (offsetAt(zone, middle) === before) low = middle
    else high = middle
  }
  return high
}

export function isZone(name: string): boolean {
  try {
    formats.get(name)
    return true
  } catch {
    return false
  }
}

function offsetAt(zone: string, time: number): number {
  if (zone === 'UTC') return 0
  const second = Math.floor(time / 1000) * 1000
  const [month = 1, date = 1, year = 1970, hours = 0, minutes = 0, seconds = 0] = formats
    .get(zone)
    .format(second)
    .split(/\D+/)
    .map(Number)
  return Date.UTC(year, month - 1, date, hours, minutes, seconds) - second
}

const formats = new Memo(
  (timeZone) =>
    // Month, day, year, hours, minutes, seconds: in this order in this language.
    new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    }),
)
