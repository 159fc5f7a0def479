import type { MillraceEvents } from 'millrace'
import { describe, expect, test } from 'vitest'
import { firedHours, hour, hourly, report, sleep, start } from './hourly.js'
import { storeOf, testMill } from './mill.js'

describe('catching up', () => {
  async function afterDowntime(catchUp: 'skip' | 'last' | 'all' | undefined, downMs: number) {
    const mill = testMill({ jobs: [report] })
    const missed: MillraceEvents['missed'][] = []
    mill.on('missed', (event) => missed.push(event))
    await hourly(mill, catchUp === undefined ? {} : { catchUp })
    await mill.advance('1h')
    await sleep(mill, downMs)
    await mill.drain()
    return { hours: await firedHours(mill), missed }
  }

  test('all fires each of them, however many', async () => {
    expect(await afterDowntime('all', 120 * hour)).toEqual({
      hours: Array.from({ length: 121 }, (_, i) => i + 1),
      missed: [],
    })
  })

  test.for(['last', undefined] as const)('%s fires the newest', async (catchUp) => {
    const since = new Date(start + 2 * hour)
    expect(await afterDowntime(catchUp, 5.5 * hour)).toEqual({
      hours: [1, 6],
      missed: [{ schedule: 'hourly', count: 4, since }],
    })
  })

  test('skip fires none, unless it is at most a minute late', async () => {
    const since = new Date(start + 2 * hour)
    expect(await afterDowntime('skip', 5.5 * hour)).toEqual({
      hours: [1],
      missed: [{ schedule: 'hourly', count: 5, since }],
    })
    expect(await afterDowntime('skip', hour + 60_000)).toEqual({ hours: [1, 2], missed: [] })
  })

  test('slots since it was put count, also when nobody told it its first one', async () => {
    const mill = testMill({ jobs: [report] })
    const store = storeOf(mill)
    await hourly(mill, { catchUp: 'all' })
    const [record] = (await store.schedules({ limit: 1 })).schedules
    await store.schedule([{ do: 'remove', name: 'hourly' }])
    // As if the process that put it had been lost at once.
    const { name, rule, spec } = record as NonNullable<typeof record>
    await store.schedule([{ do: 'put', name, rule, spec, revision: 'r' }])
    await sleep(mill, 3 * hour)
    await mill.drain()
    expect(await firedHours(mill)).toEqual([1, 2, 3])
  })

  test('a clock set forward misses slots, one set back fires none again', async () => {
    for (const catchUp of ['all', 'last'] as const) {
      const mill = testMill({ jobs: [report] })
      await hourly(mill, { catchUp })
      await mill.advance('2h')
      mill.clock.jump(3 * hour)
      await mill.drain()
      const jumped = catchUp === 'all' ? [1, 2, 3, 4, 5] : [1, 2, 5]
      expect(await firedHours(mill)).toEqual(jumped)
      mill.clock.jump(-4 * hour)
      await mill.drain()
      await mill.schedule('hourly').pause()
      await mill.schedule('hourly').resume()
      // Where the rows of fired jobs are gone, only the schedule knows.
      await mill.queue('default').clear({ states: ['completed'] })
      await mill.advance('4h')
      expect(await firedHours(mill)).toEqual([])
      await mill.advance('1h')
      expect(await firedHours(mill)).toEqual([6])
    }
  })
})
