/**
 * When a schedule recurs. Pure: the same rule has the same slots in every process, so nobody has to be told them.
 *
 * Cron expressions are read in a time zone, whose clock may jump:
 * - A time of day (one minute, one hour) fires once on each of its days. If the clock jumps over it, it fires at
 *   the first moment after the jump; if the clock shows it twice, the first time.
 * - Any other expression (lists, ranges, steps, `*`) fires whenever the clock shows such a time: what the clock
 *   jumps over is left out, and what it shows twice fires twice. So `* * * * *` fires once in each minute.
 */
import { Cron } from 'croner'
import { type Duration, milliseconds } from './duration.js'
import { Memo } from './memo.js'
import { invalid } from './options.js'
import { firstShown, isZone, shownAt } from './zone.js'

export type RecurrenceOptions = (CronOptions | EveryOptions) & SpanOptions

export interface CronOptions {
  /**
   * Five fields (minute, hour, day, month, weekday), read in `tz`; or `every`. Also `@hourly`, `@daily`,
   * `@weekly`, `@monthly`, `@yearly`, names such as `MON-FRI`, `L` for the last day and `5#2` for the second Friday.
   * If both day and weekday are given, either of them will do.
   *
   * When the clock of `tz` jumps: a time of day (`30 2 * * *`) fires once on each of its days, at the first moment
   * after the jump if the clock leaves it out, the first time if the clock shows it twice. Anything else (lists,
   * ranges, steps, `*`) fires whenever the clock shows such a time: never when it is left out, twice when it is
   * shown twice.
   */
  readonly cron: string
  /** Time zone of `cron`, such as `'America/New_York'`. @default 'UTC' */
  readonly tz?: string
  readonly every?: never
}

export interface EveryOptions {
  /** At the multiples of this duration, at least a second, counted from `from`, or from 1970 in UTC. */
  readonly every: Duration
  readonly cron?: never
  readonly tz?: never
}

export interface SpanOptions {
  /** No slot before this time. Give one that stays: another, as in each deploy a new one, begins afresh. @default none */
  readonly from?: Date
  /** No slot after this time. If that leaves none at all, an `error` event tells so. @default none */
  readonly until?: Date
}

/** Kept as text and compared as such, so the fields always come in the same order. */
export interface Recurrence {
  readonly cron?: string | undefined
  /** Of `cron`. */
  readonly tz?: string | undefined
  /** Milliseconds: slots are the multiples of it from `from` on, or from the epoch. */
  readonly every?: number | undefined
  /** First and last time that can be a slot. */
  readonly from?: number | undefined
  readonly until?: number | undefined
}

/** The first slot after `time`; undefined when there is none any more. */
export function slotAfter(rule: Recurrence, time: number): number | undefined {
  const after = Math.max(time, (rule.from ?? 0) - 1)
  const slot = rule.every === undefined ? cronAfter(rule, after) : multipleAfter(rule.every, rule.from, after)
  return slot === undefined || slot > (rule.until ?? Number.POSITIVE_INFINITY) ? undefined : slot
}

/** Up to `count` slots after `time`, none of them after `end`. */
export function slotsAfter(rule: Recurrence, time: number, count: number, end: number): number[] {
  const slots: number[] = []
  for (let slot = slotAfter(rule, time); slots.length < count; slot = slotAfter(rule, slot)) {
    if (slot === undefined || slot > end) break
    slots.push(slot)
  }
  return slots
}

export interface Newest {
  readonly slot: number
  /** The one after it. */
  readonly next: number | undefined
}

/** The newest slot up to `end`, given that `slot` is one. Halves the time between, however many slots lie there. */
export function newestSlot(rule: Recurrence, slot: number, end: number): Newest {
  const second = slotAfter(rule, slot)
  if (second === undefined || second > end) return { slot, next: second }
  let newest = second
  // After this time there is none up to `end`.
  let beyond = end
  while (beyond - newest > 1) {
    const middle = Math.floor((newest + beyond) / 2)
    const found = slotAfter(rule, middle)
    if (found === undefined || found > end) beyond = middle
    else newest = found
  }
  return { slot: newest, next: slotAfter(rule, newest) }
}

function multipleAfter(every: number, from: number | undefined, time: number): number {
  const start = from ?? 0
  return start + (Math.floor((time - start) / every) + 1) * every
}

function cronAfter({ cron = '', tz = 'UTC' }: Recurrence, time: number): number | undefined {
  return timeOfDay.test(cron) ? timeOfDayAfter(cron, tz, time) : nextRun(cron, tz, time)
}

const timeOfDay = /^\d+ \d+ /

/**
 * The calendar says which days, the zone's clock when that is. Done here because a day whose time lies in a jump
 * that ends at midnight would have none otherwise.
 */
function timeOfDayAfter(cron: string, tz: string, time: number): number | undefined {
  let shown = nextRun(cron, 'UTC', shownAt(tz, time))
  for (; shown !== undefined; shown = nextRun(cron, 'UTC', shown)) {
    const slot = firstShown(tz, shown)
    if (slot > time) return slot
  }
  return undefined
}

function nextRun(cron: string, tz: string, time: number): number | undefined {
  const after = new Date(time)
  const runs = parts
    .get(cron)
    .flatMap((part) => expressions.get(`${tz} ${part}`).nextRun(after)?.getTime() ?? [])
  return runs.length === 0 ? undefined : Math.min(...runs)
}

/**
 * What croner is asked instead of an expression; the first of the answers holds. croner counts each month up to 31:
 * if a day that February lacks matches, it goes on from that day of March, past the 1st or the 2nd though they match
 * too. So February is asked for apart from the other months, unless all days or plain weekdays match.
 */
const parts = new Memo((cron) => {
  const [minute, hour, day, month = '*', weekday = '*'] = cron.split(' ')
  if (day === '*' && !/[#L]/i.test(weekday)) return [cron]
  const months = monthsOf(month)
  return [months.filter((number) => number === february), months.filter((number) => number !== february)]
    .filter((some) => some.length > 0)
    .map((some) => `${minute} ${hour} ${day} ${some.join()} ${weekday}`)
    .filter((part) => expressions.get(`UTC ${part}`).nextRun(new Date(0)) !== null)
})

const february = 2

/** As croner reads them. */
function monthsOf(field: string): number[] {
  const firsts = readExpression(`0 0 1 ${field} *`, 'UTC')
  return twelve.filter((month) => firsts.match(new Date(Date.UTC(2000, month - 1))))
}

const twelve = Array.from({ length: 12 }, (_, i) => i + 1)

/** To read an expression costs more than to find its next run. */
const expressions = new Memo((key) => {
  const [tz = '', ...fields] = key.split(' ')
  return readExpression(fields.join(' '), tz)
})

function readExpression(cron: string, tz: string): Cron {
  // Without a zone's name it takes half the time.
  const zone = tz === 'UTC' ? { utcOffset: 0 } : { timezone: tz }
  return new Cron(cron, { ...zone, mode: '5-part', paused: true })
}

export function compileRecurrence({ cron, every, tz, from, until }: RecurrenceOptions): Recurrence {
  if ((cron === undefined) === (every === undefined))
    throw invalid('cron', cron, "either cron, such as '30 2 * * *', or every, such as '15m'")
  if (every !== undefined && tz !== undefined)
    throw invalid('tz', tz, 'none with every, which counts time that passes; a time of day needs cron')
  const span = { from: time(from, 'from'), until: time(until, 'until') }
  if (span.from !== undefined && span.until !== undefined && span.until < span.from)
    throw invalid('until', until, `a time that is not before from, ${from?.toISOString()}`)
  if (every !== undefined) return { every: interval(every), ...span }
  const zone = timeZone(tz ?? 'UTC')
  return { cron: cronExpression(cron as string, zone), tz: zone, ...span }
}

function time(value: Date | undefined, field: string): number | undefined {
  if (value === undefined) return undefined
  if (!(value instanceof Date) || !(value.getTime() >= 0)) throw invalid(field, value, 'a valid Date')
  return value.getTime()
}

const shortestInterval = 1_000

function interval(every: Duration): number {
  const ms = milliseconds(every, 'every')
  if (ms < shortestInterval)
    throw invalid(
      'every',
      every,
      `at least ${shortestInterval} ms; what comes more often belongs into one job`,
    )
  return ms
}

/** Five fields in one form, and they fire at some time. */
function cronExpression(raw: string, tz: string): string {
  const fields = typeof raw === 'string' ? (nicknames.get(raw.trim()) ?? raw.trim()).split(/\s+/) : []
  const cron = fields.join(' ')
  if (fields.length === 6 || fields.length === 7)
    throw invalid('cron', raw, "five fields (minute hour day month weekday); for seconds use every: '10s'")
  if (fields.length !== 5)
    throw invalid(
      'cron',
      raw,
      `five fields such as '30 2 * * 1-5', or one of ${[...nicknames.keys()].join(', ')}`,
    )
  if (cron.includes('?'))
    throw invalid('cron', raw, "no '?', which stands for the moment at which it is read; use '*'")
  if (firstEver(cron, raw, tz) === undefined)
    throw invalid('cron', raw, 'an expression that fires at some time; there is no such date')
  return cron
}

const nicknames = new Map([
  ['@yearly', '0 0 1 1 *'],
  ['@monthly', '0 0 1 * *'],
  ['@weekly', '0 0 * * 0'],
  ['@daily', '0 0 * * *'],
  ['@hourly', '0 * * * *'],
])

function firstEver(cron: string, raw: string, tz: string): number | undefined {
  try {
    return cronAfter({ cron, tz }, 0)
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^\w+: /, '') : String(error)
    throw invalid('cron', raw, `an expression that can be read: ${why}`)
  }
}

/** The name of a time zone that this process knows. */
function timeZone(raw: string): string {
  // Offsets are zones in some versions of Node and not in others.
  if (typeof raw === 'string' && /^[A-Za-z]/.test(raw) && isZone(raw)) return raw
  throw invalid('tz', raw, "an IANA time zone such as 'Europe/Berlin', or 'UTC'")
}
