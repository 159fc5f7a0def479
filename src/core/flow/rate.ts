/**
 * A rate limit: never more than `max` starts in any window of `per` milliseconds, wherever the window begins.
 * Starts are counted in slots of a hundredth of the window, rounded up to whole milliseconds, as if all of a slot
 * had happened in its last millisecond: so the bound holds, at the price of less than one percent of the rate, and
 * of nothing for windows up to 100 ms. `burst` bounds what may start at once; the rest follows evenly.
 */

export interface Rate {
  readonly max: number
  /** Milliseconds. */
  readonly per: number
  /** Starts at once; `max` when nothing is to be spread. */
  readonly burst: number
}

/** What has started: ends of slots with their counts, oldest first, and when the burst is whole again. */
export interface Starts {
  readonly slots: readonly (readonly [end: number, count: number])[]
  readonly wholeAt: number
}

export const noStarts: Starts = { slots: [], wholeAt: 0 }

const slotsPerWindow = 100

/** How many may start now. */
export function roomInRate(starts: Starts, rate: Rate, now: number): number {
  return Math.max(0, Math.min(rate.max - countInWindow(starts, rate, now), roomInBurst(starts, rate, now)))
}

/** When `need` may start, if nothing else does meanwhile. */
export function rateOpensAt(starts: Starts, rate: Rate, now: number, need = 1): number {
  let excess = countInWindow(starts, rate, now) + need - rate.max
  let opensAt = now
  for (const [end, count] of starts.slots) {
    if (excess <= 0) break
    if (end <= now - rate.per) continue
    excess -= count
    opensAt = end + rate.per
  }
  if (rate.burst >= rate.max) return opensAt
  const slack = tolerance(rate)
  return Math.max(opensAt, Math.ceil(starts.wholeAt - slack - (rate.burst - need) * spacing(rate)))
}

export function afterStarts(starts: Starts, rate: Rate, now: number, count: number): Starts {
  const kept = starts.slots.filter(([end]) => end > now - rate.per)
  const last = kept.at(-1)
  // Another process may have looked at its clock a moment later and written a moment sooner.
  const here = Math.max(slotEnd(rate, now), last?.[0] ?? 0)
  const slots: Starts['slots'] =
    last?.[0] === here ? [...kept.slice(0, -1), [here, last[1] + count]] : [...kept, [here, count]]
  return { slots, wholeAt: Math.max(starts.wholeAt, now) + count * spacing(rate) }
}

/** Starts that are ahead of the clock by no more than this are left as they are: two processes, two looks at it. */
const looks = 1_000

/** A clock that was set back leaves starts in the future: they count as if they had happened now. */
export function heedClock(starts: Starts, rate: Rate, now: number): Starts {
  const here = slotEnd(rate, now)
  const latest = now + rate.burst * spacing(rate)
  const wholeAt = starts.wholeAt > latest + looks ? latest : starts.wholeAt
  const late = starts.slots.findIndex(([end]) => end > here + looks)
  if (late === -1) return wholeAt === starts.wholeAt ? starts : { ...starts, wholeAt }
  const count = starts.slots.slice(late).reduce((sum, [, n]) => sum + n, 0)
  const past = { slots: starts.slots.slice(0, late), wholeAt }
  return { slots: afterStarts(past, rate, now, count).slots, wholeAt }
}

function countInWindow(starts: Starts, rate: Rate, now: number): number {
  let count = 0
  for (const [end, n] of starts.slots) if (end > now - rate.per) count += n
  return count
}

function roomInBurst({ wholeAt }: Starts, rate: Rate, now: number): number {
  if (rate.burst >= rate.max || wholeAt <= now) return rate.burst
  return rate.burst - Math.ceil((wholeAt - tolerance(rate) - now) / spacing(rate))
}

/** `wholeAt` is a date with a fraction, so that sums of spacings are off by some ten-thousandths of a millisecond. */
function tolerance(rate: Rate): number {
  return Math.min(0.01, spacing(rate) / 2)
}

function spacing({ max, per }: Rate): number {
  return per / max
}

/** The last millisecond of the slot that holds `now`. */
function slotEnd({ per }: Rate, now: number): number {
  const length = Math.max(1, Math.ceil(per / slotsPerWindow))
  return Math.floor(now / length) * length + length - 1
}
