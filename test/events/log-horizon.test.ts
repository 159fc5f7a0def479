/** The pure part of how far readers may go; what it is fed with is tested in test/postgres/events-horizon.test.ts. */
import { describe, expect, test } from 'vitest'
import { Horizon } from '../../src/events/horizon.js'
import { slotOf } from '../../src/events/slot.js'
import { Random } from '../chaos/random.js'

const of = (...writers: string[]) => new Set(writers)

describe('the horizon', () => {
  test('is where nobody writes', () => {
    const horizon = new Horizon()
    expect(horizon.decided).toBe(0)
    horizon.observe(7, of())
    expect(horizon.decided).toBe(7)
  })

  test('waits for those who were writing, and for nobody who came later', () => {
    const horizon = new Horizon()
    horizon.observe(5, of('a', 'b'))
    expect(horizon.decided).toBe(0)
    horizon.observe(8, of('b', 'c'))
    expect(horizon.decided).toBe(0)
    horizon.observe(9, of('c', 'd'))
    expect(horizon.decided).toBe(5)
    horizon.observe(9, of('d'))
    expect(horizon.decided).toBe(8)
    horizon.observe(9, of('e'))
    expect(horizon.decided).toBe(9)
  })

  test('never goes back', () => {
    const horizon = new Horizon()
    horizon.observe(9, of())
    horizon.observe(3, of())
    horizon.reached(2)
    horizon.observe(9, of('a'))
    expect(horizon.decided).toBe(9)
  })

  test('comes past a writer that took long in one step, however often it was looked at', () => {
    const horizon = new Horizon()
    for (let i = 1; i <= 1000; i++) horizon.observe(i, of('long', `${i}`, `${i + 1}`))
    expect(horizon.decided).toBe(0)
    horizon.observe(1001, of('1001', '1002'))
    expect(horizon.decided).toBeGreaterThan(0)
    horizon.observe(1002, of('1002', '1003'))
    horizon.observe(1003, of('1004'))
    expect(horizon.decided).toBeGreaterThanOrEqual(1001)
  })

  test('is never ahead of a writer that is at work, and not behind when all are still', () => {
    const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 32)
    for (let run = 0; run < 200; run++) {
      const random = new Random(seed + run)
      const horizon = new Horizon()
      /** Of each writer, its lowest position. */
      const open = new Map<string, number>()
      let last = 0
      for (let step = 0; step < 100; step++) {
        const writer = `w${step}`
        if (random.chance(0.5)) open.set(writer, ++last)
        if (random.chance(0.2)) last++
        if (open.size > 0 && random.chance(0.45)) open.delete(random.pick([...open.keys()]))
        if (random.chance(0.5)) horizon.observe(last, new Set(open.keys()))
        const lowest = Math.min(...open.values())
        expect(horizon.decided, `MILLRACE_SEED=${seed + run}`).toBeLessThan(lowest)
      }
      horizon.observe(last, of())
      expect(horizon.decided).toBe(last)
    }
  })
})

test('slots are what they always were, and spread', () => {
  expect(['', 'a', 'account-1', 'Straße-☃'].map(slotOf)).toEqual([7385, 52512, 46640, 48536])
  const counts = [0, 0, 0, 0]
  for (let i = 0; i < 4000; i++) {
    const part = slotOf(`account-${i}`) % 4
    counts[part] = (counts[part] ?? 0) + 1
  }
  for (const count of counts) expect(count).toBeGreaterThan(800)
})
