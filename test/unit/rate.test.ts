import { expect, test } from 'vitest'
import { afterStarts, noStarts, rateOpensAt, roomInRate } from '../../src/core/traffic/rate.js'

const windows = [1, 2, 10, 99, 100, 101, 150, 201, 1_000, 2_401, 60_000]

test.each(windows)('a window of %i ms is never exceeded, and costs less than one percent', (per) => {
  for (const max of [1, 7, 50]) {
    const starts = startAll({ max, per, burst: max }, 20 * max)
    for (const [i, at] of starts.entries()) {
      const next = starts[i + max]
      if (next !== undefined) expect(next - at).toBeGreaterThanOrEqual(per)
    }
    const took = (starts.at(-max) as number) - (starts[0] as number)
    const price = took / (19 * per) - 1
    expect(price).toBeLessThan(0.01)
    if (per <= 100) expect(price).toBe(0)
  }
})

/** When each of them starts, in twos and threes, as soon as it may. */
function startAll(rate: { max: number; per: number; burst: number }, count: number): number[] {
  const times: number[] = []
  let starts = noStarts
  let now = 1_000_003
  while (times.length < count) {
    const some = Math.min(roomInRate(starts, rate, now), 2 + (times.length % 2))
    if (some > 0) starts = afterStarts(starts, rate, now, some)
    for (let i = 0; i < some; i++) times.push(now)
    now = rateOpensAt(starts, rate, now)
  }
  return times
}
