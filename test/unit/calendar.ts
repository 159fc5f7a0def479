/**
 * What a cron expression means, worked out anew and the slow way: day by day over what Intl says of a zone. It knows
 * nothing of the code under test, so that the two can be held against each other.
 */

const minute = 60_000
const day = 86_400_000

/** A time in which a zone's clock shows UTC plus `offset`. */
interface Stretch {
  readonly from: number
  readonly to: number
  readonly offset: number
}

/** All times after `start` and up to `end` at which the expression fires in the zone. */
export function enumerate(cron: string, zone: Zone, start: number, end: number): number[] {
  const [minutes, hours, days, months, weekdays] = cron.split(' ') as [string, string, string, string, string]
  const isTimeOfDay = /^\d+$/.test(minutes) && /^\d+$/.test(hours)
  const onDay = dayMatcher(days, months, weekdays)
  const clockTimes = numbers(hours, 0, 23).flatMap((h) => numbers(minutes, 0, 59).map((m) => h * 60 + m))
  const found: number[] = []
  for (let local = Math.floor(start / day) - 2; local <= Math.floor(end / day) + 2; local++) {
    if (!onDay(new Date(local * day))) continue
    for (const time of clockTimes) {
      const shown = zone.instantsOf(local * day + time * minute)
      if (!isTimeOfDay) found.push(...shown)
      else found.push(shown[0] ?? zone.endOfGap(local * day + time * minute))
    }
  }
  return found.filter((time) => time > start && time <= end).sort((a, b) => a - b)
}

function dayMatcher(days: string, months: string, weekdays: string): (date: Date) => boolean {
  const inMonth = new Set(numbers(months, 1, 12))
  const byDay = new Set(numbers(days, 1, 31))
  const byWeekday = new Set(numbers(weekdays, 0, 7).map((n) => n % 7))
  return (date) => {
    if (!inMonth.has(date.getUTCMonth() + 1)) return false
    if (days === '*') return byWeekday.has(date.getUTCDay())
    if (weekdays === '*') return byDay.has(date.getUTCDate())
    return byDay.has(date.getUTCDate()) || byWeekday.has(date.getUTCDay())
  }
}

function numbers(field: string, least: number, most: number): number[] {
  return field.split(',').flatMap((part) => {
    const [range = '', step = '1'] = part.split('/')
    const [from = least, to = part.includes('/') ? most : from] =
      range === '*' ? [least, most] : range.split('-').map(Number)
    const list: number[] = []
    for (let n = from; n <= to; n += Number(step)) list.push(n)
    return list
  })
}

export class Zone {
  readonly name: string
  readonly #stretches: Stretch[] = []

  /** Knows the zone from `start` to `end`, and a little beyond. */
  constructor(name: string, start: number, end: number) {
    this.name = name
    const offsetAt = offsets(name)
    const step = 6 * 3_600_000
    let from = Number.NEGATIVE_INFINITY
    let offset = offsetAt(start - 5 * day)
    for (let time = start - 5 * day; time <= end + 5 * day; time += step) {
      const next = offsetAt(time + step)
      if (next === offset) continue
      const change = lastBefore(time, time + step, (t) => offsetAt(t) === offset)
      this.#stretches.push({ from, to: change, offset })
      from = change
      offset = next
    }
    this.#stretches.push({ from, to: Number.POSITIVE_INFINITY, offset })
  }

  /** When its clock jumps. */
  get changes(): readonly number[] {
    return this.#stretches.slice(1).map(({ from }) => from)
  }

  /** What its clock shows just before and at each change, as if it were UTC. */
  get jumps(): { before: number; after: number }[] {
    return this.#stretches.slice(1).map(({ from, offset }, i) => ({
      before: from + (this.#stretches[i] as Stretch).offset,
      after: from + offset,
    }))
  }

  /** When its clock shows this: never, once or twice. */
  instantsOf(local: number): number[] {
    return this.#stretches
      .map((stretch) => ({ ...stretch, time: local - stretch.offset }))
      .filter(({ time, from, to }) => time >= from && time < to)
      .map(({ time }) => time)
  }

  /** The first moment after the jump over this time. */
  endOfGap(local: number): number {
    const gap = this.#stretches.findIndex(({ from, offset }) => local < from + offset)
    return (this.#stretches[gap] as Stretch).from
  }
}

/** The first time for which it does not hold, to the minute. */
function lastBefore(from: number, to: number, holds: (time: number) => boolean): number {
  let low = from / minute
  let high = to / minute
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (holds(middle * minute)) low = middle
    else high = middle
  }
  return high * minute
}

function offsets(timeZone: string): (time: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  })
  return (time) => {
    const part = Object.fromEntries(
      format.formatToParts(time).map(({ type, value }) => [type, Number(value)]),
    )
    const { year = 0, month = 1, day: date = 1, hour = 0, minute: minutes = 0 } = part
    return Date.UTC(year, month - 1, date, hour, minutes) - Math.floor(time / minute) * minute
  }
}
