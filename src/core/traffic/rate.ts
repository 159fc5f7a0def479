/**
 * A rate limit: never more than `max` starts in any window of `per` milliseconds, wherever the window begins.
 * Starts are counted in slots of a hundredth of the window, rounded up to whole milliseconds, as if all of a slot
 * had happened in its last millisecond: so the bound holds, at the price of less than one percent of the rate, and
 * of nothing for windows up to 100 ms. `burst` bounds what may start at once; the rest follows evenly.
 */

import { clockSlack } from './set-back.js'

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

/** Starts of that time did not happen after all. They are in the first slot that ends no sooner, or nowhere. */
export function withoutStarts(starts: Starts, rate: Rate, at: number, count: number): Starts {
  const here = starts.slots.findIndex(([end]) => end >= slotEnd(rate, at))
  const slots = starts.slots.map(([end, n], i) => [end, i === here ? Math.max(0, n - count) : n] as const)
  return { slots: slots.filter(([, n]) => n > 0), wholeAt: starts.wholeAt - count * spacing(rate) }
}

/** Whether it knows of starts that cannot have been yet: the clock was set back. */
export function rateIsAhead({ slots, wholeAt }: Starts, rate: Rate, now: number): boolean {
  const last = slots.at(-1)?.[0] ?? 0
  return last > slotEnd(rate, now) + clockSlack || wholeAt > latestWhole(rate, now) + clockSlack
}

/** Starts ahead of the clock count as if they had happened now. */
export function rateSetBack(starts: Starts, rate: Rate, now: number): Starts {
  const here = slotEnd(rate, now)
  const past = starts.slots.filter(([end]) => end <= here)
  const ahead = starts.slots.filter(([end]) => end > here).reduce((sum, [, count]) => sum + count, 0)
  const wholeAt = Math.min(starts.wholeAt, latestWhole(rate, now))
  return { slots: afterStarts({ slots: past, wholeAt }, rate, now, ahead).slots, wholeAt }
}

function latestWhole(rate: Rate, now: number): number {
  return now + rate.burst * spacing(rate)
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
