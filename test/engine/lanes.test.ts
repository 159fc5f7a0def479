import { defineJob, type Priority } from 'millrace'
import { describe, expect, test } from 'vitest'
import { testMill } from './mill.js'

const lanes: readonly Priority[] = ['critical', 'high', 'default', 'low']

/** Fills every lane with `each` jobs and returns the order of their starts. */
async function orderOf(each: number, worker: Parameters<typeof testMill>[0] & {}): Promise<Priority[]> {
  const order: Priority[] = []
  const note = defineJob({ name: 'note', run: (lane: Priority) => void order.push(lane) })
  const mill = testMill({ jobs: [note], ...worker })
  for (const priority of [...lanes].reverse()) {
    await mill.enqueueMany(
      note,
      Array.from({ length: each }, () => priority),
      { priority },
    )
  }
  await mill.drain()
  return order
}

function count(order: readonly Priority[]): number[] {
  return lanes.map((lane) => order.filter((one) => one === lane).length)
}

describe('lanes', () => {
  test('weights hold while all lanes have work: 8:4:2:1', async () => {
    const order = await orderOf(80, { worker: { concurrency: 1, prefetch: 0 } })
    expect(count(order.slice(0, 15))).toEqual([8, 4, 2, 1])
    expect(count(order.slice(0, 75))).toEqual([40, 20, 10, 5])
    expect(order).toHaveLength(320)
  })

  test('the lowest lane is never passed over for a whole round', async () => {
    const order = await orderOf(60, { worker: { concurrency: 1, prefetch: 0 } })
    const lows = order.flatMap((lane, i) => (lane === 'low' ? [i] : [])).slice(0, 5)
    for (const [i, at] of lows.entries()) expect(at - (lows[i - 1] ?? -1)).toBeLessThanOrEqual(15)
  })

  test('strict always takes the most urgent first', async () => {
    const order = await orderOf(20, { worker: { concurrency: 1, prefetch: 0, lanes: { strict: true } } })
    expect(order).toEqual(lanes.flatMap((lane) => Array(20).fill(lane)))
  })

  test('own weights', async () => {
    const weights = { critical: 1, high: 1, default: 1, low: 1 }
    const order = await orderOf(20, { worker: { concurrency: 1, prefetch: 0, lanes: { weights } } })
    expect(count(order.slice(0, 40))).toEqual([10, 10, 10, 10])
  })

  test('reserved slots are left free for their lane', async () => {
    const gate: (() => void)[] = []
    const running = new Set<string>()
    const hold = defineJob({
      name: 'hold',
      timeout: 0,
      run: (id: string) =>
        new Promise<void>((resolve) => {
          running.add(id)
          gate.push(() => {
            running.delete(id)
            resolve()
          })
        }),
    })
    const mill = testMill({ jobs: [hold] })
    const worker = mill.worker({ concurrency: 4, lanes: { reserved: { critical: 2 } }, handleSignals: false })
    await mill.enqueueMany(hold, ['d1', 'd2', 'd3', 'd4', 'd5'])
    await worker.start()
    await mill.clock.advance(10)
    expect([...running]).toEqual(['d1', 'd2'])
    await mill.enqueueMany(hold, ['c1', 'c2', 'c3'], { priority: 'critical' })
    await mill.clock.advance(10)
    expect([...running]).toEqual(['d1', 'd2', 'c1', 'c2'])
    while (gate.length > 0) {
      gate.shift()?.()
      await mill.clock.advance(10)
    }
    expect((await mill.stats()).states).toMatchObject({ completed: 8, running: 0 })
    await worker.stop()
  })
})
