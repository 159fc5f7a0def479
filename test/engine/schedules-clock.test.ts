import { defineJob, type FiringOptions, type SpanOptions } from 'millrace'
import type { TestMill } from 'millrace/testing'
import { describe, expect, test } from 'vitest'
import { hour, start } from './hourly.js'
import { testMill } from './mill.js'

describe('a clock that is set back far', () => {
  const day = 24 * hour
  const year = 365 * day

  /** The clock is off for as long as a worker looks. */
  async function wrongBy(mill: TestMill, ms: number): Promise<void> {
    mill.clock.jump(ms)
    await mill.drain()
    mill.clock.jump(-ms)
  }

  /** Days on which it fired, from the start. */
  function daily(options: Partial<SpanOptions & FiringOptions<null>> = {}, cron = '0 12 * * *') {
    const days: number[] = []
    const run = () => void days.push(Math.floor((mill.clock.now() - start) / day))
    const job = defineJob<null>({ name: 'daily', retain: 0, run })
    const mill = testMill({ jobs: [job] })
    const errors: string[] = []
    mill.on('error', ({ error }) => errors.push(String((error as Error).message)))
    const put = (rule = cron) => mill.schedule('daily', { cron: rule, job, input: null, ...options })
    return { mill, days, errors, put }
  }

  test.for(['last', 'skip', 'all'] as const)('was ahead for a minute: it goes on (%s)', async (catchUp) => {
    const { mill, days, errors, put } = daily({ catchUp })
    const handle = await put()
    await mill.advance('3d')
    await wrongBy(mill, year)
    const before = days.splice(0).length
    expect(before).toBe({ last: 4, skip: 3, all: 3 + 365 }[catchUp])
    await mill.advance('3d')
    expect(days).toEqual([3, 4, 5])
    expect(errors).toEqual([
      expect.stringMatching(
        /^schedule 'daily' was told its next slot, 2031-.* The schedule goes on from now/,
      ),
    ])
    expect((await handle.get())?.next).toEqual(new Date(start + 6.5 * day))
  })

  test('was ahead when it was put, paused, changed or came to its end: it goes on', async () => {
    for (const act of ['put', 'pause', 'rule', 'until'] as const) {
      const options = act === 'until' ? { until: new Date(start + 30 * day) } : {}
      const { mill, days, put } = daily(options)
      if (act === 'put') mill.clock.jump(year)
      const handle = await put()
      if (act === 'put') mill.clock.jump(-year)
      else await wrongBy(mill, year)
      days.length = 0
      if (act === 'pause') {
        await handle.pause()
        await handle.resume()
      }
      if (act === 'rule') await put('0 13 * * *')
      await mill.advance('2d')
      expect(days, act).toEqual([0, 1])
      await mill.close()
    }
  })

  test('is behind for a minute: nothing is lost, and nothing fires again', async () => {
    for (const catchUp of ['last', 'skip', 'all'] as const) {
      for (const fired of [0, 3]) {
        const { mill, days, put } = daily({ catchUp })
        await put()
        await mill.advance(`${fired}d`)
        await wrongBy(mill, -year)
        await wrongBy(mill, -60 * year)
        await mill.drain()
        await mill.advance('2d')
        expect(days, `${catchUp} after ${fired}`).toEqual(Array.from({ length: fired + 2 }, (_, i) => i))
        await mill.close()
      }
    }
  })

  test('a yearly slot that has fired does not fire again', async () => {
    const { mill, days, errors, put } = daily({}, '0 12 1 1 *')
    await put()
    await mill.advance('1d')
    mill.clock.jump(-2 * day)
    await mill.advance('10d')
    expect([days, errors]).toEqual([[0], []])
  })

  test('what fired too soon counts for its limit', async () => {
    const { mill, days, put } = daily({ limit: 3 })
    await put()
    await mill.advance('1d')
    await wrongBy(mill, year)
    days.length = 0
    await mill.advance('5d')
    expect(days).toEqual([1])
  })
})
